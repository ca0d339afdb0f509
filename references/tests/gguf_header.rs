//! Malformed GGUF headers: each is refused with one sentence, before anything is allocated by what it claims.

mod common;

use std::fs;

use common::gguf::{F32, Gguf, Stored, Value, list_value, text_value, u32_value};
use fidelity_references::WeightFiles;

/// A small whole file.
fn valid() -> Gguf {
    let entries = vec![
        ("general.architecture".to_owned(), text_value("qwen2")),
        ("general.alignment".to_owned(), u32_value(32)),
        ("tokenizer.ggml.tokens".to_owned(), list_value(8, 2, &[1, 0, 0, 0, 0, 0, 0, 0, b'a', 0, 0, 0, 0, 0, 0, 0, 0])),
        ("tokenizer.ggml.scores".to_owned(), list_value(6, 2, &[0; 8])),
    ];
    let tensor = |name: &str| Stored::new(name, &[4, 2], F32, vec![0; 32]);
    Gguf::new(entries, vec![tensor("token_embd.weight"), tensor("blk.0.attn_q.weight")])
}

fn opened(bytes: &[u8]) -> Result<(), String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).expect("writes");
    WeightFiles::open_gguf(&path).map(|_| ()).map_err(|error| error.to_string())
}

fn refused(bytes: &[u8], expected: &str) {
    let message = opened(bytes).expect_err(expected);
    assert!(message.contains("model.gguf: ") && message.contains(expected), "expected {expected:?}, found {message:?}");
}

fn changed(change: impl FnOnce(&mut Gguf), expected: &str) {
    let mut file = valid();
    change(&mut file);
    refused(&file.bytes(), expected);
}

#[test]
fn whole_files_open() {
    assert_eq!(opened(&valid().bytes()), Ok(()));
    let mut file = valid();
    file.version = 2;
    assert_eq!(opened(&file.bytes()), Ok(()));
    for alignment in [8, 64, 4096] {
        let mut file = valid();
        file.alignment = alignment;
        file.set("general.alignment", u32_value(alignment as u32));
        assert_eq!(opened(&file.bytes()), Ok(()), "alignment {alignment}");
    }
    // BF16, and bytes after the last tensor, as some writers pad it.
    let mut file = valid();
    file.tensors[1].kind = 30;
    assert_eq!(opened(&[file.bytes(), vec![0; 32]].concat()), Ok(()));
}

#[test]
fn what_is_no_gguf_file() {
    refused(b"", "the magic number claims 4 bytes at byte 0, but the file has 0");
    refused(b"GGU", "but the file has 3: truncated or damaged");
    refused(b"ggjt\x03\0\0\0", "begins with \"ggjt\", expected \"GGUF\"");
    refused(b"\x08\0\0\0\0\0\0\0{}      ", "of a Hugging Face checkpoint, give the folder");
    refused(b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer");
    changed(|file| file.magic = *b"FUGG", "a big-endian GGUF file, which is not supported");
    changed(|file| file.version = 3_u32.swap_bytes(), "a big-endian GGUF file");
    for version in [0, 1, 4, u32::MAX] {
        changed(|file| file.version = version, &format!("GGUF version {version}, expected 2 or 3"));
    }
}

#[test]
fn counts_the_file_cannot_hold() {
    for count in [1 << 32, 1 << 63, u64::MAX, 20] {
        changed(|file| file.tensor_count = Some(count), &format!("the tensor count is {count}, more than a file of"));
        let expected = format!("the metadata count is {count}, more than a file of");
        changed(|file| file.entry_count = Some(count.max(40)), expected.replace(" 20,", " 40,").as_str());
    }
    changed(|file| file.tensor_count = Some(3), "the name of tensor 2 claims 0 bytes, expected 1 to 65535");
    changed(|file| file.entry_count = Some(5), "the name of tensor 0 claims 562949953421312 bytes");
}

#[test]
fn lengths_the_file_cannot_hold() {
    let long = |length: u64| Value(8, length.to_le_bytes().to_vec());
    for length in [1 << 63, u64::MAX, 1 << 32, 1000] {
        changed(|file| file.set("general.name", long(length)), &format!("`general.name` claims {length} bytes"));
        let one = list_value(8, 1, &length.to_le_bytes());
        changed(|file| file.set("general.tags", one), &format!("`general.tags` claims {length} bytes"));
    }
    for (kind, count, expected) in [
        (0, 1 << 32, "claims 4294967296 bytes"),
        (12, 1 << 61, "claims 2305843009213693952 values"),
        (8, u64::MAX, "claims 18446744073709551615 values"),
        (8, 1 << 40, "claims 8796093022208 bytes"),
        (9, 1, "is a list of lists"),
        (13, 1, "has value type 13, expected 0 to 12"),
    ] {
        changed(|file| file.set("x.list", list_value(kind, count, &[])), &format!("`x.list` {expected}"));
    }
    changed(|file| file.set("x.value", Value(99, vec![0])), "`x.value` has value type 99");
    changed(|file| file.set("x.flag", Value(7, vec![2])), "`x.flag` is a boolean of 2, expected 0 or 1");
    changed(|file| file.set("", u32_value(1)), "claims 0 bytes, expected 1 to 65535");
    changed(|file| file.set(&"k".repeat(65_536), u32_value(1)), "claims 65536 bytes, expected 1 to 65535");
    changed(|file| file.tensors[0].name = "t".repeat(70_000), "the name of tensor 0 claims 70000 bytes");
}

#[test]
fn alignments_that_are_none() {
    let align = |value: Value, expected: &str| changed(|file| file.set("general.alignment", value), expected);
    for alignment in [0, 1, 3, 4, 24, 33, u32::MAX] {
        let expected = format!("`general.alignment` is {alignment} (U32), expected a power of two from 8 on (U32)");
        align(u32_value(alignment), &expected);
    }
    align(Value(10, 32_u64.to_le_bytes().to_vec()), "`general.alignment` is 32 (U64), expected");
    align(Value(5, (-32_i32).to_le_bytes().to_vec()), "`general.alignment` is -32 (I32), expected");
    align(text_value("32"), "`general.alignment` is \"32\", expected");
    changed(
        |file| {
            file.set("general.alignment", u32_value(1 << 31));
            file.tensors.truncate(1);
        },
        "takes 32 bytes at offset 0, past the file's end",
    );
}

#[test]
fn tensors_that_cannot_be() {
    let tensor = |change: &dyn Fn(&mut Stored), expected: &str| changed(|file| change(&mut file.tensors[1]), expected);
    tensor(
        &|t| t.dimensions = vec![1 << 40, 1 << 40],
        "has shape [1099511627776, 1099511627776], whose size overflows",
    );
    tensor(&|t| t.dimensions = vec![1 << 62], "whose size overflows");
    tensor(&|t| t.dimensions = vec![1 << 32, 1 << 31], "whose size overflows");
    tensor(&|t| t.dimensions = vec![1 << 40], "takes 4398046511104 bytes at offset 32, past the file's end");
    tensor(&|t| t.dimensions = vec![4, 0], "expected no dimension of 0");
    tensor(&|t| t.dimensions = vec![], "has 0 dimensions, expected 1 to 4");
    tensor(&|t| t.dimensions = vec![1; 5], "has 5 dimensions, expected 1 to 4");
    tensor(&|t| t.kind = 99, "`blk.0.attn_q.weight` is stored as kind 99 (unknown), expected one of F32");
    tensor(&|t| t.kind = 20, "is stored as kind 20 (IQ4_NL)");
    tensor(&|t| t.kind = 9, "is stored as kind 9 (Q8_1)");
    tensor(&|t| t.kind = 2, "has rows of 4 values, expected a multiple of 32, the block of Q4_0");
    tensor(&|t| t.offset = Some(33), "is at offset 33, expected a multiple of 32");
    tensor(&|t| t.offset = Some(64), "takes 32 bytes at offset 64, past the file's end");
    tensor(&|t| t.offset = Some(u64::MAX - 31), "past the file's end");
    tensor(&|t| t.offset = Some(0), "overlaps the one before, which ends at 32");
    tensor(&|t| t.name = "token_embd.weight".into(), "tensor `token_embd.weight` is in it twice");
    changed(
        |file| file.entries.push(("general.alignment".into(), u32_value(32))),
        "`general.alignment` is in the metadata twice",
    );
    let mut bytes = valid().bytes();
    let name = bytes.windows(5).position(|window| window == b"blk.0").expect("there");
    bytes[name] = 0xff;
    refused(&bytes, "the name of tensor 1 is not UTF-8");
}

#[test]
fn a_file_cut_anywhere() {
    let bytes = valid().bytes();
    for length in 0..bytes.len() {
        refused(&bytes[..length], "");
    }
    refused(&bytes[..bytes.len() - 1], "past the file's end");
}
