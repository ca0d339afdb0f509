//! The check of the reference: what it says of every golden, and that it sees what is planted.

mod common;

use std::fs;

use candle_core::{Device, Tensor};
use candle_transformers::models::mistral;
use common::{GOLDENS, golden, golden_folder, relative_l2, safetensors};
use fidelity_references::{
    Architecture, CheckOutcome, Checkpoint, Decoder, ReferenceCheck, WeightFiles, Wiring, check_reference,
};
use fidelity_trace::{BosConvention, Fault, Intervention, Site};

fn prompt(name: &str) -> Vec<u32> {
    golden(&golden_folder(name).join("golden.safetensors")).integers["token_ids"].clone()
}

fn prompts(name: &str) -> Vec<(String, Vec<u32>)> {
    let ids = prompt(name);
    vec![("whole".into(), ids.clone()), ("short".into(), ids[3..8].to_vec())]
}

fn checked(
    checkpoint: &Checkpoint,
    decoder: &Decoder,
    wiring: &Wiring,
    prompts: &[(String, Vec<u32>)],
) -> ReferenceCheck {
    check_reference(checkpoint, decoder, wiring, prompts, 2, &|_| {}).expect("computes")
}

/// The check of a golden by a decoder of another architecture, which the second opinion does not see.
fn planted(name: &str, change: impl FnOnce(&mut Architecture), fault: Option<Fault>) -> ReferenceCheck {
    let folder = golden_folder(name);
    let checkpoint = Checkpoint::open(&folder, name).expect("supported");
    let mut architecture = checkpoint.architecture().clone();
    change(&mut architecture);
    let mut weights = WeightFiles::open(&folder).expect("there");
    let decoder = Decoder::load(&mut weights, &architecture, &|_, tensor| Ok(tensor)).expect("complete");
    let faults = fault.map(Intervention::from).into_iter().collect();
    let (decoder, wiring) = decoder.with_faults(faults).expect("fits");
    checked(&checkpoint, &decoder, &wiring, &prompts(name))
}

use CheckOutcome::{Incomplete, NotApplicable, Pass};

/// What the second opinion comes to, who gives it, and a part of the reason.
const EXPECTED: [(&str, CheckOutcome, &str, &str); 16] = [
    ("llama-gqa", Pass, "llama", "all 29 rows agree"),
    ("llama-mha-tied", Pass, "llama", "all 29 rows agree"),
    ("llama-bias", Pass, "smol::smollm3", "all 29 rows agree"),
    ("llama-head-dim", Pass, "mistral", "all 29 rows agree"),
    ("llama-rope-linear", NotApplicable, "", "llama knows the RoPE types default and llama3 only"),
    ("llama-rope-dynamic", NotApplicable, "", "llama knows the RoPE types default and llama3 only"),
    ("llama-rope-llama3", Pass, "llama", "all 29 rows agree"),
    ("llama-rope-yarn", NotApplicable, "", "llama knows the RoPE types default and llama3 only"),
    ("mistral-window", Incomplete, "mistral", "13 of 29 rows agree; 16 were not compared, since candle-transformers"),
    ("mistral-nowindow", Pass, "mistral", "all 29 rows agree"),
    ("qwen2", Pass, "qwen2", "all 29 rows agree"),
    ("qwen2-window", Incomplete, "qwen2", "11 of 29 rows agree; 18 were not compared, since candle-transformers"),
    ("qwen3", Pass, "qwen3", "all 29 rows agree"),
    ("smollm3", Pass, "smol::smollm3", "all 29 rows agree"),
    ("gpt2", NotApplicable, "", "has no implementation of model_type \"gpt2\""),
    ("gpt2-inverse", NotApplicable, "", "has no implementation of model_type \"gpt2\""),
];

#[test]
fn every_golden_passes_or_meets_a_defect_that_is_known() {
    assert_eq!(EXPECTED.map(|(name, ..)| name), GOLDENS);
    for (name, outcome, module, reason) in EXPECTED {
        let check = planted(name, |_| {}, None);
        let opinion = &check.second_opinion;
        assert_eq!(opinion.outcome, outcome, "{name}: {}", opinion.reason);
        assert!(opinion.reason.contains(reason), "{name}: {}", opinion.reason);
        assert_eq!(opinion.implementation.as_ref().map_or("", |about| about.module), module, "{name}");
        let positions: usize = check.prompts.iter().map(|prompt| prompt.tokens).sum();
        assert_eq!(opinion.rows.len() + opinion.rows_not_compared, positions, "{name}");
        assert!(opinion.rows.iter().all(|row| row.same_choice), "{name}");
        assert_eq!(check.noise.outcome, Pass, "{name}: {}", check.noise.reason);
        let sites = check.noise.sites.len();
        for part in &check.chunks {
            // One of its two prompts is longer than 32 positions.
            let chunked = if name == "llama-rope-dynamic" { Incomplete } else { Pass };
            assert_eq!(part.outcome, chunked, "{name}: chunks of {}: {}", part.tokens, part.reason);
            assert_eq!(part.sites.len(), sites, "{name}: chunks of {}", part.tokens);
        }
        let whole = if outcome == Pass { Pass } else { Incomplete };
        assert_eq!(check.outcome, whole, "{name}: {}", check.reason);
    }
}

#[test]
fn the_demo_passes() {
    let demo = Checkpoint::demo().expect("compiled in");
    let texts = ["Once upon a time there was a small brown fox.", "The moon"];
    let prompts = texts.map(|text| (text.to_owned(), demo.encode(text, BosConvention::Tokenizer).expect("text")));
    let decoder = demo.decoder(&|_, tensor| Ok(tensor)).expect("complete");
    let check = checked(&demo, &decoder, &Wiring::default(), &prompts);
    assert_eq!(check.outcome, Pass, "{}", check.reason);
    let about = check.second_opinion.implementation.expect("a Llama");
    assert!(about.worked_around[0].contains("does not read rope_parameters"), "{about:?}");
}

/// Only the second opinion sees what is wrong in the same way however it is computed.
fn only_the_second_opinion_fails(check: &ReferenceCheck, what: &str) {
    assert_eq!(check.second_opinion.outcome, CheckOutcome::Fail, "{what}: {:?}", check.second_opinion.logits);
    assert_eq!(check.outcome, CheckOutcome::Fail, "{what}");
    assert!(check.reason.starts_with("second opinion: "), "{what}: {}", check.reason);
    assert_eq!(check.noise.outcome, Pass, "{what}: {}", check.noise.reason);
    check.chunks.iter().for_each(|part| assert_eq!(part.outcome, Pass, "{what}: {}", part.reason));
}

#[test]
fn a_wrong_norm_epsilon_fails() {
    for name in ["llama-gqa", "mistral-nowindow", "qwen2", "qwen3", "smollm3"] {
        only_the_second_opinion_fails(&planted(name, |a| a.norm_eps = 1e-5, None), name);
    }
}

#[test]
fn other_planted_faults_fail() {
    let theta = |a: &mut Architecture| a.rope.as_mut().expect("rotary").theta *= 1.01;
    only_the_second_opinion_fails(&planted("llama-gqa", theta, None), "theta");
    only_the_second_opinion_fails(&planted("qwen3", |a| a.qk_norm = false, None), "no q/k norm");
    only_the_second_opinion_fails(&planted("smollm3", |a| a.layers[3].rope = true, None), "RoPE in a NoPE block");
    only_the_second_opinion_fails(
        &planted(
            "llama-rope-llama3",
            |a| a.rope.as_mut().expect("rotary").scaling = fidelity_references::RopeScaling::None,
            None,
        ),
        "no RoPE scaling",
    );
    only_the_second_opinion_fails(
        &planted("mistral-window", |a| a.layers.iter_mut().for_each(|layer| layer.window = Some(5)), None),
        "a window of 5",
    );
    for fault in [Fault::GqaTile, Fault::SoftmaxAcrossHeads, Fault::RopeInterleaved] {
        only_the_second_opinion_fails(&planted("llama-gqa", |_| {}, Some(fault)), fault.name());
    }
}

#[test]
fn a_fault_that_depends_on_the_chunk_fails_in_chunks_too() {
    let check = planted("llama-gqa", |_| {}, Some(Fault::MaskRepeated));
    assert_eq!(check.noise.outcome, Pass);
    let outcomes: Vec<_> = check.chunks.iter().map(|part| part.outcome).collect();
    // Chunks of 32 are the whole prompt.
    assert_eq!(outcomes, [CheckOutcome::Fail, CheckOutcome::Fail, Pass]);
    assert!(check.chunks[2].reason.starts_with("no difference in "), "{}", check.chunks[2].reason);
    assert_eq!(check.outcome, CheckOutcome::Fail);
}

#[test]
fn what_is_not_finite_fails() {
    let folder = golden_folder("llama-gqa");
    let checkpoint = Checkpoint::open(&folder, "golden").expect("supported");
    let poisoned = |kind, tensor: Tensor| {
        if kind == fidelity_references::WeightKind::Head { tensor * f64::NAN } else { Ok(tensor) }
    };
    let decoder = checkpoint.decoder(&poisoned).expect("complete");
    let check = checked(&checkpoint, &decoder, &Wiring::default(), &prompts("llama-gqa"));
    let outcomes = [check.noise.outcome, check.second_opinion.outcome, check.chunks[0].outcome, check.outcome];
    assert_eq!(outcomes, [CheckOutcome::Fail; 4]);
    assert_eq!(check.noise.sites[&Site::Logits].rows_above, 29);
    let json = serde_json::to_value(&check).expect("JSON");
    assert!(json["second_opinion"]["logits"]["worst"]["relative_l2"].is_null());
}

/// transformers computes a tied checkpoint with its embedding; candle's Qwen2 would take the head that is stored.
#[test]
fn a_stored_head_that_is_tied_is_not_shown_to_the_second_opinion() {
    let mut parts = safetensors::parts("qwen2");
    let (dtype, shape, bytes) = parts["model.embed_tokens.weight"].clone();
    parts.insert("lm_head.weight".into(), (dtype, shape, vec![0; bytes.len()]));
    let folder = safetensors::checkpoint_folder("qwen2", &parts);
    let checkpoint = Checkpoint::open(folder.path(), "tied").expect("supported");
    let decoder = checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete");
    let check = checked(&checkpoint, &decoder, &Wiring::default(), &prompts("qwen2"));
    assert_eq!(check.outcome, Pass, "{}", check.reason);
}

/// candle-transformers keeps W + 1 keys in a window. transformers keeps W, and so does the reference; with W + 1 it would be candle.
#[test]
fn candle_keeps_one_key_too_many_in_a_window() {
    let folder = golden_folder("mistral-window");
    let golden = golden(&folder.join("golden.safetensors"));
    let (ids, (width, transformers)) = (&golden.integers["token_ids"], &golden.floats["logits"]);
    let config = fs::read(folder.join("config.json")).expect("there");
    let tensors = common::gguf::float32_tensors(&folder.join("model.safetensors"));
    let tensors = tensors
        .into_iter()
        .map(|(name, (shape, values))| (name, Tensor::from_vec(values, shape, &Device::Cpu).expect("its own shape")));
    let builder = candle_nn::VarBuilder::from_tensors(tensors.collect(), candle_core::DType::F32, &Device::Cpu);
    let config = serde_json::from_slice(&config).expect("a file of transformers 4");
    let mut candle = mistral::Model::new(&config, builder).expect("complete");
    let window = 8;
    let wider = logits("mistral-window", |a| a.layers.iter_mut().for_each(|layer| layer.window = Some(window + 1)));
    let ours = logits("mistral-window", |_| {});
    for (position, expected) in transformers.chunks(*width).enumerate() {
        candle.clear_kv_cache();
        let prefix = Tensor::new(&ids[..=position], &Device::Cpu).and_then(|ids| ids.unsqueeze(0)).expect("ids");
        let row = candle.forward(&prefix, 0).and_then(|row| row.flatten_all()?.to_vec1::<f32>()).expect("computes");
        assert!(relative_l2(expected, &ours[position]) < 1e-5, "the reference is with transformers at {position}");
        assert!(relative_l2(&row, &wider[position]) < 1e-5, "candle is with a wider window at {position}");
        let error = relative_l2(expected, &row);
        let seen = if position < window as usize { error < 1e-5 } else { error > 1e-3 };
        assert!(seen, "candle against transformers at {position}: {error:.2e}");
    }
}

/// The logits of a golden's prompt by a decoder of another architecture.
fn logits(name: &str, change: impl FnOnce(&mut Architecture)) -> Vec<Vec<f32>> {
    struct Nothing;
    impl fidelity_references::Instrument for Nothing {
        fn at(&mut self, _: Site, _: fidelity_references::Part, tensor: Tensor) -> candle_core::Result<Tensor> {
            Ok(tensor)
        }
    }
    let folder = golden_folder(name);
    let mut architecture = Checkpoint::open(&folder, name).expect("supported").architecture().clone();
    change(&mut architecture);
    let mut weights = WeightFiles::open(&folder).expect("there");
    let decoder = Decoder::load(&mut weights, &architecture, &|_, tensor| Ok(tensor)).expect("complete");
    let ids = prompt(name);
    let positions: Vec<u32> = (0..ids.len() as u32).collect();
    let chunk = fidelity_references::Chunk {
        token_ids: &ids,
        positions: &positions,
        visibility: fidelity_references::Visibility::Causal,
    };
    decoder
        .forward(&chunk, None, &Wiring::default(), &mut Nothing)
        .and_then(|logits| logits.to_vec2())
        .expect("computes")
}
