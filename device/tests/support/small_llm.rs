//! The language model of the tests of session and supervisor.

use std::{fs, path::PathBuf};

use fidelity_hef_writer::{
    hef_writer::Hef,
    llm_writer::{Llm, tokenizer},
};
use tempfile::TempDir;

/// Tokens, which are as many as logits.
pub(crate) const VOCABULARY: u64 = 8;
/// Entries of the ring.
pub(crate) const LENGTH: usize = 6;
/// Tokens of a chunk.
pub(crate) const CHUNK: usize = 4;

/// Two query heads, one key head, heads of two dimensions; chunks of four tokens, a ring of six.
pub(crate) fn small() -> Llm {
    Llm {
        hidden: 2,
        query_heads: 2,
        kv_heads: 1,
        head_dim: 2,
        cache: LENGTH as u64,
        prefill: CHUNK as u64,
        vocabulary: VOCABULARY,
        shards: 2,
        blocks: 1,
        theta: vec![-0.5, 0.5],
        tokenizer: tokenizer(VOCABULARY),
        embedding: vec![0.0; 2 * VOCABULARY as usize],
        ..Llm::default()
    }
}

/// Codes of token t: 256 t + 1 and 256 t + 2.
pub(crate) fn with_codes(mut hef: Hef) -> Hef {
    let codes = (0..VOCABULARY).flat_map(|token| [1, token as u8, 2, token as u8]).collect();
    hef.resources.iter_mut().find(|resource| resource.name == "embeddings.bin").expect("there").bytes = codes;
    hef
}

/// One group without a cache: rows of the sequence are the keys.
pub(crate) fn whole(rows: u64, output_rows: u64) -> Hef {
    let llm = small();
    let mut hef = with_codes(llm.hef());
    hef.groups.pop();
    let config = Llm { cache: rows, prefill: rows, ..llm.clone() }.config();
    hef.resources[0].bytes = config.to_string().into_bytes();
    let group = &mut hef.groups[0];
    group.name = "small_base".into();
    for context in &mut group.contexts {
        context.edges.retain(|edge| edge.connection == 0);
        for edge in &mut context.edges {
            if edge.name.ends_with("input_layer2") {
                edge.shape[2] = llm.query_heads * rows;
            }
            edge.shape[1] = if edge.direction == 0 { rows } else { output_rows };
        }
    }
    hef
}

/// The number of a token, as the fake chip sees it.
pub(crate) fn number(token: u32) -> u32 {
    256 * token + 1
}

/// The file in a folder that goes when the test ends.
pub(crate) fn stored(hef: &Hef) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("small.hef");
    fs::write(&path, hef.v3()).expect("writes");
    (folder, path)
}
