//! The HEF files: our own audit passes them, against the checkpoint too.

use std::io::Cursor;

use fidelity_device::{
    audit::{Audit, BosFacts, CheckId, CheckpointFacts, RopeFacts, State, TokenizerFacts, audit},
    hef::Hef,
};
use fidelity_mock_soc::{Checkpoint, Groups, HefOptions, InputOrder, MaskConvention, Rotation, Width, build};

use crate::support::{demo, hef};

fn audited(options: &HefOptions) -> Audit {
    let checkpoint = demo();
    let dimensions = checkpoint.dimensions;
    let embedding = embedding(&checkpoint);
    let hidden = dimensions.hidden;
    let mut facts = CheckpointFacts {
        name: "demo".into(),
        hidden: hidden as u64,
        query_heads: dimensions.query_heads as u64,
        kv_heads: dimensions.kv_heads as u64,
        head_dim: dimensions.head_dim as u64,
        vocabulary: dimensions.vocabulary as u64,
        rope: Some(RopeFacts { frequencies: checkpoint.frequencies.clone(), magnitude: 1.0, depends_on_length: false }),
        embedding_rows: Box::new(move |first, rows| Ok(embedding[first * hidden..(first + rows) * hidden].to_vec())),
        tokenizer: Some(TokenizerFacts::read(checkpoint.tokenizer.as_slice()).expect("a tokenizer")),
        bos: BosFacts { expected: Some(false), token: None },
    };
    let bytes = build(&checkpoint, options).expect("it can be compiled");
    audit(&mut Hef::read(Cursor::new(bytes)).expect("readable"), Some(&mut facts)).expect("readable")
}

fn embedding(checkpoint: &Checkpoint) -> Vec<f32> {
    let file = safetensors::SafeTensors::deserialize(&checkpoint.weights).expect("safetensors");
    let tensor = file.tensor("model.embed_tokens.weight").expect("the embedding");
    tensor.data().as_chunks::<2>().0.iter().map(|pair| half::f16::from_le_bytes(*pair).to_f32()).collect()
}

#[track_caller]
fn passes(options: &HefOptions) {
    let found = audited(options);
    let not_passed = found.checks.iter().filter(|check| check.state != State::Pass);
    let not_passed: Vec<_> = not_passed.map(|check| (check.id, check.state)).collect();
    // Where the file does not say how caches are quantised there is nothing to compare.
    assert_eq!(not_passed, [(CheckId::CacheQuantisation, State::NotApplicable)], "{options:?}: {found:?}");
    assert_eq!((found.outcome, found.exit_code), (State::Pass, 0));
}

#[test]
fn every_kind_of_file_with_caches_passes_the_audit() {
    passes(&HefOptions::official(8, 32));
    passes(&HefOptions::precise(4, 24));
    passes(&HefOptions { groups: Groups::Prefill, ..HefOptions::official(8, 32) });
    passes(&HefOptions {
        mask: MaskConvention::Added,
        inputs: InputOrder::KeysFirst,
        rotation: Rotation::SignInGraph,
        shards: 1,
        logits: Width::Sixteen,
        ..HefOptions::official(16, 64)
    });
}

#[test]
fn without_caches_the_audit_says_so_and_nothing_else() {
    let red =
        |options: &HefOptions| -> Vec<_> { audited(options).in_state(State::Fail).map(|check| check.id).collect() };
    assert_eq!(red(&HefOptions { every_row: false, ..HefOptions::base(16) }), [CheckId::CachePairs]);
    assert_eq!(red(&HefOptions::base(16)), [CheckId::Outputs, CheckId::CachePairs]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let refused = |options: &HefOptions| build(&demo(), options).expect_err("it does not fit").to_string();
    assert!(refused(&HefOptions { shards: 3, ..HefOptions::official(8, 32) }).contains("512 is not 3 equal shards"));
    assert!(refused(&HefOptions::official(32, 32)).contains("32 rows and a cache of 32 tokens"));
    let mut other = demo();
    other.dimensions.intermediate = 345;
    let error = build(&other, &HefOptions::official(8, 32)).expect_err("other shapes").to_string();
    assert!(error.contains("[344, 128], expected [345, 128]"), "{error}");
}

#[test]
fn the_same_checkpoint_gives_the_same_bytes() {
    assert_eq!(hef(&HefOptions::official(8, 32)), hef(&HefOptions::official(8, 32)));
}
