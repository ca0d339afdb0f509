//! Files that were made to harm: every size is a lie until it is checked.

use zip::CompressionMethod;

use crate::support::{Beside, Desk, floats, npy, npz, packed};

const MAP: &str = "[prompt]\ntoken_ids = [1]\n[scopes.base.sites.logits]\narray = \"x\"\naxes = \"row value\"\n";

fn refused(name: &str, bytes: &[u8]) -> String {
    let desk = Desk::new();
    let file = desk.write(name, bytes);
    desk.refused(&[&file], MAP, &Beside::default())
}

/// Offsets of a signature.
fn found(bytes: &[u8], signature: &[u8]) -> Vec<usize> {
    (0..bytes.len().saturating_sub(signature.len())).filter(|at| bytes[*at..].starts_with(signature)).collect()
}

#[test]
fn files_cut_anywhere_are_refused() {
    let whole = packed(&[("x", floats(&[1, 40], (0..40).map(|value| value as f32)))], CompressionMethod::Deflated);
    for length in 0..whole.len() {
        let message = refused("x.npz", &whole[..length]);
        assert!(message.contains("x.npz: "), "{length}: {message}");
    }
}

#[test]
fn a_damaged_byte_never_passes_as_another_value() {
    let good = npz(&[("x", floats(&[1, 4], [1.0, 2.0, 3.0, 4.0]))]);
    let data = found(&good, &1.0_f32.to_le_bytes())[0];
    let mut bad = good;
    bad[data + 3] ^= 1;
    let message = refused("x.npz", &bad);
    assert!(message.contains("array `x`: the data is damaged") || message.contains("Invalid checksum"), "{message}");
}

#[test]
fn sizes_that_lie_are_found() {
    let shape = npy("<f4", false, &[1 << 20, 1 << 10], &[0; 16]);
    assert!(refused("x.npz", &npz(&[("x", shape.clone())])).contains("but there are 16 bytes"));
    assert!(refused("x.npy", &shape).contains("array `x`: not in the file"));
    let many = npy("<f4", false, &[1 << 40, 1 << 40], &[0; 16]);
    assert!(refused("x.npz", &npz(&[("x", many)])).contains("too many values"));
    let axes = npy("<f4", false, &[1; 70], &[0; 4]);
    assert!(refused("x.npz", &npz(&[("x", axes)])).contains("too many values or axes"));
    // The zip says that the entry is larger than it is.
    let mut bytes = npz(&[("x", floats(&[1, 4], [1.0; 4]))]);
    for (signature, field) in [(b"PK\x01\x02", 24), (b"PK\x03\x04", 22)] {
        let at = found(&bytes, signature)[0] + field;
        bytes[at..at + 4].copy_from_slice(&(1_u32 << 30).to_le_bytes());
    }
    let message = refused("x.npz", &bytes);
    assert!(message.contains("x.npz"), "{message}");
}

#[test]
fn a_bomb_is_not_unpacked() {
    let zeros = npy("<f4", false, &[1, 20 << 20], &vec![0; 80 << 20]);
    let bomb = packed(&[("x", zeros)], CompressionMethod::Deflated);
    assert!(bomb.len() < 200_000, "{}", bomb.len());
    let message = refused("x.npz", &bomb);
    assert!(message.contains("claim to become 83886") && message.contains("more than 100 times"), "{message}");
}

#[test]
fn names_from_outside_cannot_steer_a_terminal() {
    let bytes = npz(&[("a\u{1b}[31m\n\u{202e}b", floats(&[1, 1], [0.0]))]);
    let message = refused("x.npz", &bytes);
    assert!(!message.contains(['\u{1b}', '\n', '\u{202e}']), "{message:?}");
    assert!(message.contains("\\u{1b}[31m\\n"), "{message}");
    let long = npz(&[(&"n".repeat(5000), floats(&[1, 1], [0.0]))]);
    assert!(refused("x.npz", &long).len() < 600);
}

#[test]
fn what_is_no_archive_is_refused() {
    for (name, bytes, says) in [
        ("x.npz", &b"not a zip"[..], "not a whole .npz (zip) file"),
        ("x.npz", b"", "not a whole .npz (zip) file"),
        ("x.safetensors", b"\xff\xff\xff\xff\xff\xff\xff\x7f{}", "not a whole safetensors file"),
        ("x.safetensors", b"", "not a whole safetensors file"),
        ("x.pt", b"\x80\x02", "expected a file ending in .npz, .npy or .safetensors"),
        ("x", b"", "expected a file ending in"),
    ] {
        let message = refused(name, bytes);
        assert!(message.contains(says), "{name}: {message}");
    }
    let desk = Desk::new();
    let missing = desk.refused(&[&desk.path("nowhere.npz")], MAP, &Beside::default());
    assert!(missing.contains("cannot read") && missing.contains("nowhere.npz"), "{missing}");
    let folder = desk.path("folder.npz");
    std::fs::create_dir(&folder).expect("made");
    assert!(desk.refused(&[&folder], MAP, &Beside::default()).contains("not a regular file"));
}

#[test]
fn two_arrays_of_one_name_are_refused() {
    let mut bytes = npz(&[("x", floats(&[1, 1], [1.0])), ("y", floats(&[1, 1], [2.0]))]);
    for at in found(&bytes, b"y.npy") {
        bytes[at] = b'x';
    }
    let message = refused("x.npz", &bytes);
    assert!(message.contains("same name") || message.contains("uplicate"), "{message}");
}

#[test]
fn empty_arrays_are_no_rows() {
    assert!(refused("x.npz", &npz(&[("x", floats(&[1, 0], []))])).contains("its rows hold no values"));
    assert!(refused("x.npz", &npz(&[("x", floats(&[0, 4], []))])).contains("0 rows, its positions are 1"));
}
