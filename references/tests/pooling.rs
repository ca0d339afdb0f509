//! modules.json and the pooling module's config.json: how an encoder's token rows become one.

mod common;

use std::fs;

use common::{golden, golden_folder, run};
use fidelity_references::{Checkpoint, Output, Pooling, PoolingMode};
use fidelity_trace::{Scope, Site, Subject};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The golden encoder with these files beside it.
fn folder(files: &[(&str, Value)]) -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for name in ["config.json", "model.safetensors"] {
        fs::copy(golden_folder("bert").join(name), folder.path().join(name)).expect("copies");
    }
    for (name, content) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("inside")).expect("creates");
        fs::write(path, content.to_string()).expect("writes");
    }
    folder
}

fn pooling(files: &[(&str, Value)]) -> Result<Pooling, String> {
    let checkpoint = Checkpoint::open(folder(files).path(), "test").map_err(|error| error.to_string())?;
    match checkpoint.architecture().output {
        Output::Hidden(pooling) => Ok(pooling),
        Output::Logits => Err("a decoder".into()),
    }
}

fn modules(types: &[&str]) -> (&'static str, Value) {
    let module = |(index, class): (usize, &&str)| {
        let path = if index == 0 { String::new() } else { format!("{index}_{class}") };
        json!({"idx": index, "name": index.to_string(), "path": path, "type": format!("sentence_transformers.models.{class}")})
    };
    ("modules.json", types.iter().enumerate().map(module).collect())
}

fn config(content: Value) -> (&'static str, Value) {
    ("1_Pooling/config.json", content)
}

const STATED: Pooling = Pooling { mode: PoolingMode::Mean, normalised: false, stated: true };

#[test]
fn without_files_it_is_the_mean_and_not_stated() {
    assert_eq!(pooling(&[]), Ok(Pooling { stated: false, ..STATED }));
    let detail = |files: &[(&str, Value)]| common::reference(folder(files).path()).arm().detail["pooling"].clone();
    assert_eq!(detail(&[]), "mean of the tokens (the default: no modules.json)");
    assert_eq!(detail(&[config(json!({"pooling_mode": "cls"}))]), "first token");
}

#[test]
fn both_dialects_and_normalisation_are_read() {
    let flags = json!({"word_embedding_dimension": 64, "pooling_mode_cls_token": false, "pooling_mode_mean_tokens": true,
        "pooling_mode_max_tokens": false, "pooling_mode_mean_sqrt_len_tokens": false});
    assert_eq!(pooling(&[config(flags.clone())]), Ok(STATED));
    let plain = modules(&["Transformer", "Pooling"]);
    let normalised = modules(&["Transformer", "Pooling", "Normalize"]);
    assert_eq!(pooling(&[plain.clone(), config(flags.clone())]), Ok(STATED));
    assert_eq!(pooling(&[normalised, config(flags)]), Ok(Pooling { normalised: true, ..STATED }));
    let cls = Ok(Pooling { mode: PoolingMode::Cls, ..STATED });
    let named = json!({"embedding_dimension": 64, "pooling_mode": "cls", "include_prompt": true});
    assert_eq!(pooling(&[plain.clone(), config(named)]), cls);
    assert_eq!(pooling(&[plain.clone(), config(json!({"pooling_mode_cls_token": true}))]), cls);
    // The newer key wins over flags, a list of one is that one, and no flag at all is the mean.
    let both = json!({"pooling_mode": ["cls"], "pooling_mode_mean_tokens": true});
    assert_eq!(pooling(&[plain.clone(), config(both)]), cls);
    assert_eq!(pooling(&[plain, config(json!({}))]), Ok(STATED));
}

#[test]
fn what_is_not_computed_is_refused_by_name() {
    let plain = || modules(&["Transformer", "Pooling"]);
    for (files, expected) in [
        (
            vec![config(json!({"pooling_mode_max_tokens": true}))],
            "`pooling_mode_max_tokens` is true, expected \"mean\" or",
        ),
        (vec![config(json!({"pooling_mode": "lasttoken"}))], "`pooling_mode` is \"lasttoken\""),
        (vec![config(json!({"pooling_mode": ["mean", "cls"]}))], "`pooling_mode` is [\"mean\",\"cls\"]"),
        (
            vec![config(json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true}))],
            "`pooling_mode_mean_tokens` is true, expected false: several modes",
        ),
        (vec![config(json!({"word_embedding_dimension": 32}))], "`word_embedding_dimension` is 32, expected 64"),
        (vec![config(json!({"pooling_mode_new": true}))], "`pooling_mode_new` = true is not a key this program knows"),
        (vec![modules(&["Transformer", "Pooling", "Dense"])], "the modules are Transformer, Pooling, Dense, expected"),
        (vec![modules(&["Transformer"])], "the modules are Transformer, expected"),
        (vec![plain()], "1_Pooling/config.json"),
        (
            vec![
                modules(&["Transformer", "Pooling", "Normalize"]),
                config(json!({})),
                ("2_Normalize/config.json", json!({"module_input_name": "token_embeddings"})),
            ],
            "`module_input_name` is \"token_embeddings\", expected \"sentence_embedding\"",
        ),
        (vec![("modules.json", json!({"a": 1}))], "modules.json: not a list of modules"),
        (vec![("modules.json", json!([{"path": "../x", "type": "Transformer"}]))], "`[0].path` is \"../x\""),
        (
            vec![("modules.json", json!([{"path": "", "type": "Transformer", "lora": 1}]))],
            "`[0].lora` = 1 is not a key",
        ),
        (
            vec![(
                "modules.json",
                json!([{"path": "0_T", "type": "Transformer"}, {"path": "1_Pooling", "type": "Pooling"}]),
            )],
            "the Transformer is in `0_T`",
        ),
    ] {
        let found = pooling(&files).expect_err("refused");
        assert!(found.contains(expected), "{expected}: {found}");
    }
}

#[test]
fn the_pooled_row_is_what_the_files_say_of_the_token_rows() {
    let ids = golden(&golden_folder("bert").join("golden.safetensors")).integers["token_ids"].clone();
    let rows = |files: &[(&str, Value)]| {
        let folder = folder(files);
        let mut capture = run(&common::reference(folder.path()), &ids, 0, &[Scope::Base]);
        let mut sites = capture.scopes.remove(&Scope::Base).expect("there").sites;
        let [tokens, pooled] = [Site::FinalNorm, Site::Pooled].map(|site| sites.remove(&site).expect("tapped"));
        assert_eq!(pooled.shape, [1, 64]);
        (tokens, pooled.values)
    };
    let close = |found: &[f32], expected: &[f64]| {
        found.iter().zip(expected).all(|(found, expected)| (f64::from(*found) - expected).abs() < 1e-5)
    };
    let (tokens, pooled) = rows(&[]);
    let at = |index: usize| (0..tokens.rows()).map(|row| f64::from(tokens.row(row)[index])).sum::<f64>();
    let mean: Vec<f64> = (0..64).map(|index| at(index) / tokens.rows() as f64).collect();
    assert!(close(&pooled, &mean));
    let (_, normalised) = rows(&[modules(&["Transformer", "Pooling", "Normalize"]), config(json!({}))]);
    let length = mean.iter().map(|value| value * value).sum::<f64>().sqrt();
    assert!(close(&normalised, &mean.iter().map(|value| value / length).collect::<Vec<_>>()));
    let (_, first) = rows(&[config(json!({"pooling_mode": "cls"}))]);
    assert_eq!(first, tokens.row(0));
}
