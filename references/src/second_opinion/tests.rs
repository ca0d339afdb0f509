//! Each defect that is listed is there: the implementation computes something else, or does not fit, when it is asked regardless.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::{NoOpinion, SecondOpinion, config, defects::Implementation, load};
use crate::{
    Architecture, Chunk, Decoder, Visibility, WeightFiles, Wiring, config::object, reference::Untouched,
    weights::read_bounded,
};
use Implementation::{Llama, Mistral, Qwen2, Qwen3, SmolLm3};

fn folder(golden: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/goldens").join(golden)
}

/// A golden's config.json with other values.
fn changed(golden: &str, changes: &[(&str, Value)]) -> Map<String, Value> {
    let bytes = read_bounded(&folder(golden).join("config.json"), 1 << 20).expect("there");
    let mut config = object(&bytes, "config.json").expect("an object");
    for (key, value) in changes {
        config.insert((*key).to_owned(), value.clone());
    }
    config
}

const IDS: [u32; 20] = [1, 5, 9, 200, 31, 77, 12, 300, 4, 8, 2, 6, 10, 14, 18, 22, 26, 30, 34, 38];

/// By position, how far an implementation is from the reference, which the goldens hold equal to transformers.
fn asked_regardless(
    golden: &str,
    changes: &[(&str, Value)],
    implementation: Implementation,
) -> Result<Vec<f64>, NoOpinion> {
    let config = changed(golden, changes);
    let open = || WeightFiles::open(&folder(golden)).expect("there");
    let architecture = Architecture::parse(Value::from(config.clone()).to_string().as_bytes(), None, "config.json");
    let architecture = architecture.expect("supported");
    let decoder = Decoder::load(&mut open(), &architecture, &|_, tensor| Ok(tensor)).expect("complete");
    let positions: Vec<u32> = (0..IDS.len() as u32).collect();
    let chunk = Chunk { token_ids: &IDS, positions: &positions, visibility: Visibility::Causal };
    let ours = decoder.forward(&chunk, None, &Wiring::default(), &mut Untouched).expect("computes");
    let ours = ours.to_vec2::<f32>().expect("float32");
    let about = super::about(&config, implementation, Vec::new());
    let second = SecondOpinion { model: load(&config, open(), implementation, IDS.len())?, about };
    let mut errors = Vec::new();
    let mut see = |theirs: &[f32]| {
        let pairs = || ours[errors.len()].iter().zip(theirs).map(|(a, b)| (f64::from(*a), f64::from(*b)));
        let error: f64 = pairs().map(|(a, b)| (a - b).powi(2)).sum();
        errors.push((error / pairs().map(|(a, _)| a * a).sum::<f64>()).sqrt());
    };
    second.rows(&IDS, &mut see).expect("computes");
    Ok(errors)
}

#[test]
fn who_is_not_asked_would_compute_something_else() {
    let rope = |kind: &str| json!({"rope_type": kind, "factor": 4.0, "rope_theta": 1e6});
    let cases = [
        ("llama-head-dim", vec![], vec![Llama, Qwen2, SmolLm3]),
        ("llama-bias", vec![], vec![Llama, Mistral]),
        ("llama-gqa", vec![("hidden_act", json!("gelu"))], vec![Llama]),
        ("mistral-nowindow", vec![("hidden_act", json!("quick_gelu"))], vec![Mistral]),
        ("llama-rope-linear", vec![], vec![Llama, Mistral, SmolLm3]),
        ("llama-rope-yarn", vec![], vec![Llama, Mistral, SmolLm3]),
        ("llama-rope-dynamic", vec![("max_position_embeddings", json!(8))], vec![Llama, Mistral, SmolLm3]),
        ("qwen2", vec![("rope_scaling", rope("linear"))], vec![Qwen2]),
        ("qwen3", vec![("rope_scaling", rope("linear"))], vec![Qwen3]),
        ("llama-gqa", vec![("partial_rotary_factor", json!(0.5))], vec![Llama, Mistral, SmolLm3]),
    ];
    for (golden, changes, implementations) in cases {
        for implementation in implementations {
            assert!(
                !super::reasons(&changed(golden, &changes), implementation, super::Consequence::NotAsked).is_empty(),
                "{golden} {changes:?}: {implementation:?} would be asked"
            );
            match asked_regardless(golden, &changes, implementation) {
                Err(NoOpinion::NotAvailable(_)) => {}
                Err(NoOpinion::Failed(error)) => panic!("{golden} {implementation:?}: {error}"),
                Ok(errors) => {
                    let worst = errors.iter().copied().fold(0.0, f64::max);
                    assert!(worst > 1e-3, "{golden} {changes:?} {implementation:?}: {worst:.2e}: it is mended there");
                }
            }
        }
    }
}

#[test]
fn windows_are_wrong_from_the_window_on() {
    let mut slides =
        vec![("use_sliding_window", json!(true)), ("sliding_window", json!(6)), ("layer_types", Value::Null)];
    let smollm3 = slides.clone();
    slides.push(("max_window_layers", json!(0)));
    for (golden, changes, implementation, window) in [
        ("mistral-window", vec![], Mistral, 8),
        ("qwen2-window", vec![], Qwen2, 6),
        ("qwen3", slides, Qwen3, 6),
        ("smollm3", smollm3, SmolLm3, 6),
    ] {
        assert_eq!(config::window(&changed(golden, &changes)), Some(window), "{golden}");
        let errors = asked_regardless(golden, &changes, implementation).expect("supported");
        for (position, error) in errors.iter().enumerate() {
            let seen = if position < window { *error < 1e-5 } else { *error > 1e-3 };
            assert!(seen, "{golden} at {position}: {error:.2e}");
        }
    }
}

#[test]
fn what_is_worked_around_agrees() {
    for (golden, changes, implementation) in [
        ("llama-rope-llama3", vec![], Llama),
        ("mistral-nowindow", vec![], Mistral),
        ("llama-mha-tied", vec![], Mistral),
        ("qwen2", vec![], Qwen2),
        ("qwen3", vec![], Qwen3),
        ("smollm3", vec![("no_rope_layers", Value::Null)], SmolLm3),
    ] {
        let errors = asked_regardless(golden, &changes, implementation).expect("supported");
        assert!(errors.iter().all(|error| *error < 1e-5), "{golden}: {errors:?}");
    }
}

/// A file that transformers 5 wrote, read as it is: refused, or read with a wrong base.
#[test]
fn the_keys_of_transformers_5_are_not_read() {
    let as_it_is = |golden: &str| Value::Object(changed(golden, &[]));
    assert!(
        serde_json::from_value::<candle_transformers::models::mistral::Config>(as_it_is("mistral-nowindow")).is_err()
    );
    let llama: candle_transformers::models::llama::LlamaConfig =
        serde_json::from_value(as_it_is("llama-rope-llama3")).expect("it has a default");
    assert!(
        (llama.rope_theta - 10_000.0).abs() < 1.0 && llama.rope_scaling.is_none(),
        "the file says 500000 and llama3"
    );
}

/// A key that is missing or odd is said, and nothing panics.
#[test]
fn what_it_cannot_read_is_not_available() {
    let open = || WeightFiles::open(&folder("qwen2")).expect("there");
    for (key, value, said) in [
        ("rms_norm_eps", Value::Null, "cannot read this config.json"),
        ("model_type", json!("mamba"), "has no implementation of model_type \"mamba\""),
        ("vocab_size", json!(321), "does not fit: "),
        ("num_hidden_layers", json!(4), "does not fit: "),
        ("num_hidden_layers", json!(2), "have no place in this architecture"),
    ] {
        let config = Value::Object(changed("qwen2", &[(key, value)]));
        match SecondOpinion::load(&config, open(), 8) {
            Err(NoOpinion::NotAvailable(reason)) => assert!(reason.contains(said), "{key}: {reason}"),
            _ => panic!("{key}: there is an opinion"),
        }
    }
}
