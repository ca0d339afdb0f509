//! Random damage: whatever the bytes of a weight file are, it opens or is refused, without a panic and without allocating
//! more than the file justifies.
#![expect(clippy::print_stderr, reason = "a measurement that did not happen says so")]

mod common;

use std::{fs, path::Path};

use common::{gguf::from_folder, golden_folder};
use fidelity_references::Checkpoint;

const ROUNDS: usize = 400;
/// Virtual memory that loading a checkpoint of 0.5 MB thousands of times may reserve on top, thread stacks included.
const ALLOWED_BYTES: u64 = 512 << 20;

struct Random(u64);

impl Random {
    /// Marsaglia's xorshift64.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// Changes a few bytes, writes an extreme integer, cuts, or repeats a piece; mostly inside the header.
fn damage(bytes: &mut Vec<u8>, header_length: usize, random: &mut Random) {
    for _ in 0..=random.below(3) {
        let reach = if random.below(8) == 0 { bytes.len() } else { header_length.min(bytes.len()) };
        let at = random.below(reach.max(1));
        let extremes = [0, 1, 1 << 31, 1 << 32, 1 << 40, 1 << 61, 1 << 62, 1 << 63, u64::MAX, u64::MAX - 31];
        match random.below(6) {
            0 => bytes.truncate(at),
            1 => {
                let piece = bytes[at..(at + 16).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            2 => {
                let extreme = extremes[random.below(extremes.len())].to_le_bytes();
                let size = [4, 8][random.below(2)];
                bytes.splice(at..(at + size).min(bytes.len()), extreme[..size].to_vec());
            }
            3 => drop(bytes.drain(at..(at + random.below(9)).min(bytes.len()))),
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = [0, 0xff, b'9', b'"', b'}', (random.next() & 0xff) as u8][random.below(6)];
                }
            }
        }
    }
}

/// Largest virtual size so far, where the system says it.
fn peak_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmPeak:"))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

fn survives(whole: &[u8], header_length: usize, path: &Path, open: &dyn Fn() -> bool) {
    fs::write(path, whole).expect("writes");
    assert!(open(), "the whole file opens");
    let before = peak_bytes();
    let (mut random, mut accepted) = (Random(0x9e37_79b9_7f4a_7c15), 0);
    for _ in 0..ROUNDS {
        let mut bytes = whole.to_vec();
        damage(&mut bytes, header_length, &mut random);
        fs::write(path, bytes).expect("writes");
        accepted += usize::from(open());
    }
    assert!(accepted < ROUNDS / 2, "{accepted} of {ROUNDS} damaged files were accepted");
    match (before, peak_bytes()) {
        (Some(before), Some(after)) => assert!(after - before < ALLOWED_BYTES, "{} bytes reserved", after - before),
        _ => eprintln!("did not measure memory: no /proc/self/status"),
    }
}

#[test]
fn damaged_weight_files_open_or_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = from_folder(&golden_folder("llama-gqa"), None);
    let path = folder.path().join("model.gguf");
    let loads = |checkpoint: Checkpoint| checkpoint.decoder(&|_, tensor| Ok(tensor)).is_ok();
    survives(&file.bytes(), file.header().len(), &path, &|| Checkpoint::open_gguf(&path, "test").is_ok_and(loads));

    let golden = golden_folder("llama-gqa");
    fs::copy(golden.join("config.json"), folder.path().join("config.json")).expect("copies");
    let whole = fs::read(golden.join("model.safetensors")).expect("there");
    let header_length = 8 + u64::from_le_bytes(*whole.first_chunk().expect("8 bytes")) as usize;
    let path = folder.path().join("model.safetensors");
    survives(&whole, header_length, &path, &|| Checkpoint::open(folder.path(), "test").is_ok_and(loads));
}
