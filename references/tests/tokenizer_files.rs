//! Awkward and damaged tokenizer.json files: each is read as Python's `tokenizers` reads it, or refused with one sentence.

mod common;

use std::{fs, path::Path};

use common::golden_folder;
use fidelity_references::Checkpoint;
use fidelity_trace::BosConvention;
use serde_json::{Value, json};

/// A checkpoint of 320 ids with that tokenizer.json.
fn opened(tokenizer: &[u8]) -> Result<Checkpoint, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(golden_folder("llama-gqa").join(file), folder.path().join(file)).expect("copies");
    }
    fs::write(folder.path().join("tokenizer.json"), tokenizer).expect("writes");
    Checkpoint::open(folder.path(), "test").map_err(|error| error.to_string())
}

fn ids(tokenizer: &Value, text: &str) -> Result<Vec<u32>, String> {
    let checkpoint = opened(tokenizer.to_string().as_bytes())?;
    checkpoint.encode(text, BosConvention::Tokenizer).map_err(|error| error.to_string())
}

fn refusal(tokenizer: &[u8]) -> String {
    let error = opened(tokenizer).err().expect("refused");
    assert!(error.contains("tokenizer.json: "), "{error}");
    error
}

/// A BPE of a few characters.
fn bpe(merges: Value) -> Value {
    json!({"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "merges": merges,
        "vocab": {"a": 0, "b": 1, "ab": 2, "abab": 9, "<0xC3>": 10, "<0xA9>": 11}}})
}

fn with(mut tokenizer: Value, key: &str, value: Value) -> Value {
    tokenizer[key] = value;
    tokenizer
}

fn added(id: u32, content: &str, special: bool) -> Value {
    json!({"id": id, "content": content, "special": special, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": false})
}

#[test]
fn merges_are_strings_or_pairs() {
    assert_eq!(ids(&bpe(json!(["a b", "ab ab"])), "abab"), Ok(vec![9]));
    assert_eq!(ids(&bpe(json!([["a", "b"], ["ab", "ab"]])), "abab"), Ok(vec![9]));
    for merges in [json!(["a"]), json!([["a", "b", "c"]]), json!(["a c"]), json!([["a"]])] {
        let error = ids(&bpe(merges.clone()), "a").expect_err("refused");
        assert!(error.contains("not a tokenizer this program can read"), "{merges}: {error}");
    }
}

#[test]
fn kinds_that_this_version_does_not_know_are_refused() {
    let base = bpe(json!([]));
    for (key, value) in [
        ("pre_tokenizer", json!({"type": "FromTheFuture"})),
        ("normalizer", json!({"type": "FromTheFuture"})),
        ("post_processor", json!({"type": "FromTheFuture"})),
        ("pre_tokenizer", json!({"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated", "invert": false})),
        ("model", json!({"type": "FromTheFuture", "vocab": {}})),
        ("model", json!({"type": "BPE"})),
        ("version", json!("2.0")),
        ("model", Value::Null),
    ] {
        refusal(with(base.clone(), key, value).to_string().as_bytes());
    }
    // Files from before the model had a type.
    let mut untyped = bpe(json!(["a b"]));
    untyped["model"].as_object_mut().expect("an object").remove("type");
    assert_eq!(ids(&untyped, "ab"), Ok(vec![2]));
}

#[test]
fn ids_may_have_holes_and_must_have_a_row() {
    assert_eq!(ids(&bpe(json!(["a b", "ab ab"])), "ababa"), Ok(vec![9, 0]), "ids 3 to 8 are no tokens");
    for id in [320, 400, u32::MAX] {
        let mut vocabulary = bpe(json!([]));
        vocabulary["model"]["vocab"]["<x>"] = json!(id);
        let error = refusal(vocabulary.to_string().as_bytes());
        assert!(error.contains(&format!("token \"<x>\" has id {id}, but config.json's vocab_size is 320")), "{error}");
    }
    // The library would give an added token the count of those before, which here is no end of them.
    for id in [12, 400, u32::MAX] {
        let beyond = with(bpe(json!([])), "added_tokens", json!([added(id, "<x>", true)]));
        let error = refusal(beyond.to_string().as_bytes());
        assert!(error.contains(&format!("added token \"<x>\" has id {id} there, but would be given 6")), "{error}");
    }
    let mut negative = bpe(json!([]));
    negative["model"]["vocab"]["<x>"] = json!(-1);
    refusal(negative.to_string().as_bytes());
}

#[test]
fn added_tokens_special_or_not() {
    let twice = with(bpe(json!([])), "added_tokens", json!([added(0, "a", true), added(0, "a", true)]));
    assert_eq!(ids(&twice, "ab"), Ok(vec![0, 1]));
    let plain = with(bpe(json!([])), "added_tokens", json!([added(9, "abab", false)]));
    assert_eq!(ids(&plain, "aababb"), Ok(vec![0, 9, 1]));
    let without_id = json!({"content": "<x>", "special": true});
    refusal(with(bpe(json!([])), "added_tokens", json!([without_id])).to_string().as_bytes());
}

#[test]
fn a_template_defines_the_tokens_it_puts_in() {
    let template = |defined: Value| {
        json!({"type": "TemplateProcessing", "special_tokens": defined, "pair": [],
            "single": [{"SpecialToken": {"id": "a", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]})
    };
    let defined = template(json!({"a": {"id": "a", "ids": [0], "tokens": ["a"]}}));
    let nested = json!({"type": "Sequence", "processors": [template(json!({}))]});
    assert_eq!(ids(&with(bpe(json!([])), "post_processor", defined), "b"), Ok(vec![0, 1]));
    for processor in [template(json!({})), nested] {
        let error = refusal(with(bpe(json!([])), "post_processor", processor).to_string().as_bytes());
        assert!(error.contains("puts \"a\" into the text, but does not say which id that is"), "{error}");
    }
}

#[test]
fn bytes_stand_in_for_unknown_characters() {
    let mut fallback = bpe(json!([]));
    fallback["model"]["byte_fallback"] = json!(true);
    assert_eq!(ids(&fallback, "a\u{e9}"), Ok(vec![0, 10, 11]));
    assert_eq!(
        ids(&bpe(json!([])), "a\u{e9}"),
        Ok(vec![0]),
        "without it, a character that nothing stands for is left out"
    );
}

#[test]
fn padding_and_truncation_are_for_batches() {
    let padding = json!({"strategy": {"Fixed": 4_000_000_000_u32}, "direction": "Right", "pad_id": 1, "pad_type_id": 0,
        "pad_token": "b", "pad_to_multiple_of": null});
    let truncation = json!({"direction": "Right", "max_length": 1, "strategy": "LongestFirst", "stride": 0});
    let file = with(with(bpe(json!([])), "padding", padding), "truncation", truncation);
    assert_eq!(ids(&file, "aab"), Ok(vec![0, 0, 1]));
}

#[test]
fn what_is_no_tokenizer() {
    let whole = bpe(json!([])).to_string();
    for bytes in [&b""[..], b"{}", b"[]", b"null", b"version https://git-lfs.github.com/spec/v1\n", &[0xff; 40]] {
        refusal(bytes);
    }
    for length in 0..whole.len() {
        refusal(&whole.as_bytes()[..length]);
    }
    let mut invalid = whole.clone().into_bytes();
    let place = whole.find("abab").expect("there");
    invalid[place] = 0xff;
    refusal(&invalid);
    refusal("[".repeat(100_000).as_bytes());
    let nothing = json!({"version": "1.0", "added_tokens": [], "model": {"type": "BPE", "vocab": {}, "merges": []}});
    assert!(refusal(nothing.to_string().as_bytes()).contains("has no tokens"));
}

#[test]
fn a_file_that_no_tokenizer_fills_is_not_read() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    for file in ["config.json", "model.safetensors"] {
        fs::copy(golden_folder("llama-gqa").join(file), folder.path().join(file)).expect("copies");
    }
    for (name, size) in [("tokenizer.json", (256 << 20) + 1), ("config.json", 100_000_000)] {
        let file = fs::File::create(folder.path().join(name)).expect("creates");
        file.set_len(size).expect("a file of holes");
        let error = Checkpoint::open(folder.path(), "test").err().expect("refused").to_string();
        assert!(error.contains(&format!("{name}: larger than ")), "{error}");
    }
}

struct Random(u64);

impl Random {
    /// Marsaglia's xorshift64.
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

/// Replaces one value somewhere below.
fn damage(value: &mut Value, random: &mut Random) {
    let deeper = random.below(8) > 0;
    match value {
        Value::Object(object) if deeper && !object.is_empty() => {
            let index = random.below(object.len());
            if random.below(8) == 0 {
                let key = object.keys().nth(index).expect("below its length").clone();
                object.remove(&key);
            } else {
                damage(object.values_mut().nth(index).expect("below its length"), random);
            }
        }
        Value::Array(list) if deeper && !list.is_empty() => {
            let index = random.below(list.len());
            damage(&mut list[index], random);
        }
        _ => {
            let others = [
                json!(null),
                json!(-1),
                json!(u32::MAX),
                json!(1e308),
                json!(""),
                json!("a"),
                json!([]),
                json!({}),
                json!(true),
            ];
            *value = others[random.below(others.len())].clone();
        }
    }
}

#[test]
fn damaged_tokenizers_are_read_or_refused() {
    let (mut random, mut refused, mut rounds) = (Random(0x9e37_79b9_7f4a_7c15), 0, 0);
    for entry in Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tokenizers").read_dir().expect("there") {
        let path = entry.expect("readable").path();
        let whole: Value = serde_json::from_slice(&fs::read(&path).expect("readable")).expect("JSON");
        for _ in 0..if path.ends_with("stress.json") { 0 } else { 60 } {
            let mut damaged = whole.clone();
            damage(&mut damaged, &mut random);
            rounds += 1;
            match opened(damaged.to_string().as_bytes()) {
                Ok(checkpoint) => {
                    for text in ["", "Hello w\u{f6}rld <s>", "\u{4f60} 12"] {
                        // An id, or a sentence; a panic would end the test.
                        let _ = checkpoint.encode(text, BosConvention::Tokenizer);
                    }
                }
                Err(_) => refused += 1,
            }
        }
    }
    assert!(refused > rounds / 10 && refused < rounds, "{refused} of {rounds}");
}
