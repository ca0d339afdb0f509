//! Ids equal those of Python's `tokenizers`, on texts that tokenizers disagree about. `references/goldens/tokenizer_ids.py` stores
//! them. The ids of SmolLM2-135M are held where `FIDELITY_SMOLLM2` names its folder.

mod common;

use std::{collections::BTreeMap, env, fs, path::Path};

use common::golden_folder;
use fidelity_references::Checkpoint;
use fidelity_trace::BosConvention;
use serde::Deserialize;
use serde_json::{Value, json};

#[derive(Deserialize)]
struct Stored {
    texts: Vec<String>,
    /// By tokenizer, of each text: with and without what the post-processor adds.
    ids: BTreeMap<String, Vec<[Vec<u32>; 2]>>,
}

fn folder() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tokenizers"))
}

fn stored() -> Stored {
    serde_json::from_slice(&fs::read(folder().join("stress.json")).expect("there")).expect("as written")
}

/// A checkpoint with that tokenizer and room for its ids.
fn checkpoint(tokenizer: &Path) -> Checkpoint {
    let (folder, golden) = (tempfile::tempdir().expect("a temporary folder"), golden_folder("llama-gqa"));
    let config = fs::read(golden.join("config.json")).expect("there");
    let mut config: Value = serde_json::from_slice(&config).expect("JSON");
    config["vocab_size"] = json!(100_000);
    fs::write(folder.path().join("config.json"), config.to_string()).expect("writes");
    fs::copy(golden.join("model.safetensors"), folder.path().join("model.safetensors")).expect("copies");
    fs::copy(tokenizer, folder.path().join("tokenizer.json")).expect("copies");
    Checkpoint::open(folder.path(), "test").expect("supported")
}

/// Where our ids are not the stored ones, one line each.
fn differences(name: &str, tokenizer: &Path, stored: &Stored) -> Vec<String> {
    let checkpoint = checkpoint(tokenizer);
    let ids = &stored.ids[name];
    assert_eq!(ids.len(), stored.texts.len(), "{name}");
    let mut differences = Vec::new();
    for (text, ids) in stored.texts.iter().zip(ids) {
        for (expected, bos) in ids.iter().zip([BosConvention::Tokenizer, BosConvention::Never]) {
            let found = match checkpoint.encode(text, bos) {
                Ok(ids) => ids,
                // A prompt of no tokens is refused; Python gives an empty list.
                Err(error) if error.to_string().contains("has no tokens") => Vec::new(),
                Err(error) => panic!("{name}: {text:?}: {error}"),
            };
            if found != *expected {
                differences.push(format!("{name}, {bos:?}: {text:?}: {found:?}, expected {expected:?}"));
            }
        }
    }
    differences
}

#[test]
fn ids_equal_those_of_pythons_tokenizers() {
    let stored = stored();
    assert!(stored.texts.len() > 200);
    let mut found = Vec::new();
    let mut held = 0;
    for name in stored.ids.keys() {
        let file = match name.as_str() {
            "demo" => Path::new(env!("CARGO_MANIFEST_DIR")).join("demo/tokenizer.json"),
            "smollm2-135m" => match env::var_os("FIDELITY_SMOLLM2") {
                Some(folder) => Path::new(&folder).join("tokenizer.json"),
                None => {
                    eprintln!("{name} did not run: FIDELITY_SMOLLM2 is not set");
                    continue;
                }
            },
            _ => folder().join(format!("{name}.json")),
        };
        found.extend(differences(name, &file, &stored));
        held += 1;
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
    assert!(held >= 15, "{held} tokenizers");
}

#[test]
fn a_text_that_regular_expressions_would_give_up_on_is_refused() {
    let checkpoint = checkpoint(&folder().join("cuts-gpt2.json"));
    let ids = |spaces: usize| checkpoint.encode(&format!("{}a", " ".repeat(spaces)), BosConvention::Never);
    // The last space goes with the letter: the run is cut before it.
    let longest = ids(899_999).expect("just short enough");
    let (first, space) = (longest[0], longest[1]);
    assert!(longest[..899_998].iter().skip(1).all(|id| *id == space) && longest[899_998] == first);
    let error = ids(900_000).expect_err("too long").to_string();
    assert!(error.contains("tokenizer.json: the prompt has 900001 bytes, at most 900000 are read"), "{error}");
}
