//! Whatever the bytes are, they are read or refused: no panic, no endless loop, no large allocation.
#![no_main]

use std::io::Cursor;

use fidelity_device::{
    audit::{BosFacts, CheckpointFacts, RopeFacts, TokenizerFacts, audit},
    hef::Hef,
};
use libfuzzer_sys::fuzz_target;

/// The checkpoint that the language model among the seeds was made of, but for its values.
fn facts() -> CheckpointFacts<'static> {
    CheckpointFacts {
        name: "small".into(),
        hidden: 32,
        query_heads: 4,
        kv_heads: 2,
        head_dim: 8,
        vocabulary: 40,
        rope: Some(RopeFacts { frequencies: vec![1.0, 0.1, 0.01, 0.001], magnitude: 1.0, depends_on_length: false }),
        embedding_rows: Box::new(|_, rows| Ok(vec![0.25; rows * 32])),
        tokenizer: TokenizerFacts::read(&b"{\"model\":{\"vocab\":{\"a\":0}}}"[..]).ok(),
        bos: BosFacts { expected: Some(true), token: Some("<bos>".into()) },
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok(mut hef) = Hef::read(Cursor::new(data)) else { return };
    let alone = audit(&mut hef, None).expect("memory can be read");
    alone.to_json().expect("every value has a form in JSON");
    let against = audit(&mut hef, Some(&mut facts())).expect("memory can be read");
    assert!(against.exit_code < 4);
});
