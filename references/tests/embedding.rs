//! The embedding row by row is the embedding.

mod common;

use candle_core::DType;
use common::{gguf::from_folder, golden_folder};
use fidelity_references::{Checkpoint, WeightFiles};

/// All rows, read in blocks of that many.
fn in_blocks(checkpoint: &Checkpoint, block: usize) -> Vec<u32> {
    let rows = checkpoint.architecture().vocabulary;
    let mut embedding = checkpoint.embedding().expect("opens");
    let firsts = (0..rows).step_by(block);
    let read = firsts.flat_map(|first| embedding.rows(first, block.min(rows - first)).expect("there"));
    read.map(f32::to_bits).collect()
}

fn whole(weights: &mut WeightFiles, name: &str, checkpoint: &Checkpoint) -> Vec<u32> {
    let architecture = checkpoint.architecture();
    let table = weights.take(name, &[architecture.vocabulary, architecture.hidden]).expect("there");
    let values: Vec<f32> =
        table.to_dtype(DType::F32).and_then(|table| table.flatten_all()?.to_vec1()).expect("float32");
    values.into_iter().map(f32::to_bits).collect()
}

#[test]
fn of_a_folder() {
    for (name, tensor) in [
        ("llama-gqa", "model.embed_tokens.weight"),
        ("llama-mha-tied", "model.embed_tokens.weight"),
        ("gpt2", "transformer.wte.weight"),
    ] {
        let folder = golden_folder(name);
        let checkpoint = Checkpoint::open(&folder, name).expect("supported");
        let expected = whole(&mut WeightFiles::open(&folder).expect("opens"), tensor, &checkpoint);
        for block in [1, 7, 100_000] {
            assert!(in_blocks(&checkpoint, block) == expected, "{name}, {block}");
        }
    }
}

#[test]
fn of_a_gguf_file() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.gguf");
    from_folder(&golden_folder("llama-gqa"), None).write(&path);
    let checkpoint = Checkpoint::open_gguf(&path, "test").expect("supported");
    let expected = whole(&mut WeightFiles::open_gguf(&path).expect("opens"), "model.embed_tokens.weight", &checkpoint);
    for block in [1, 7, 100_000] {
        assert!(in_blocks(&checkpoint, block) == expected, "{block}");
    }
}

#[test]
fn rows_that_are_not_there() {
    let checkpoint = Checkpoint::demo().expect("embedded");
    let mut embedding = checkpoint.embedding().expect("opens");
    assert_eq!(embedding.rows(511, 1).expect("the last").len(), 128);
    for (first, count) in [(511, 2), (512, 1), (usize::MAX, 2)] {
        let error = embedding.rows(first, count).expect_err("refused").to_string();
        assert!(error.contains(&format!("of which {count} rows from row {first} on")), "{error}");
    }
}

#[test]
fn the_tokenizer_is_the_file() {
    let folder = golden_folder("llama-gqa");
    let with = Checkpoint::demo().expect("embedded");
    assert!(with.tokenizer_json().expect("there").is_some_and(|bytes| bytes.starts_with(b"{")));
    let without = Checkpoint::open(&folder, "test").expect("supported");
    assert_eq!(without.tokenizer_json().expect("no file"), None);
}
