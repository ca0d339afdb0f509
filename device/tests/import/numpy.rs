//! Files that numpy wrote (fixtures/make.py).

use std::path::PathBuf;

use fidelity_trace::{Scope, Site};

use crate::support::{Beside, Desk, only};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/import/fixtures").join(name)
}

fn map(array: &str, more: &str) -> String {
    format!(
        "[prompt]\ntoken_ids = {{ array = \"token_ids\" }}\n[scopes.base.sites.logits]\narray = \"{array}\"\naxes = \"row value\"\n{more}"
    )
}

fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn every_float_of_numpy_is_read_and_what_is_not_finite_stays() {
    for array in ["float16", "float32_big", "float64", "fortran"] {
        let desk = Desk::new();
        let (imported, trace) =
            desk.import(&[&fixture("numpy.npz")], &map(array, ""), &Beside::default()).expect("imports");
        let base = &only(&trace).scopes[&Scope::Base];
        assert_eq!(base.token_ids, [7, 8], "a big-endian int32");
        let logits = &base.sites[&Site::Logits];
        assert_eq!(logits.shape, [2, 3]);
        assert_eq!(logits.row(0), [1.5, -2.25, 0.125], "{array}");
        assert!(logits.row(1)[0].is_nan(), "{array}");
        assert_eq!(bits(&logits.row(1)[1..]), bits(&[f32::INFINITY, 40000.0]), "{array}");
        let rounds = imported.notes.iter().any(|note| note.starts_with("float64 was rounded"));
        assert_eq!(rounds, array == "float64");
        assert!(imported.notes.iter().any(|note| note.contains("not mapped and left out: ")));
    }
}

#[test]
fn codes_become_values_and_their_grid_is_kept() {
    let desk = Desk::new();
    let codes = map("uint8", "scale = 0.5\nzero_point = 128\n");
    let (_, trace) = desk.import(&[&fixture("numpy.npz")], &codes, &Beside::default()).expect("imports");
    let logits = &only(&trace).scopes[&Scope::Base].sites[&Site::Logits];
    assert_eq!(logits.values, [-64.0, 0.0, 63.5, -63.5, -63.0, -62.5]);
    assert_eq!(trace.manifest().logits_step, Some(vec![0.5]));
    let refused = Desk::new().refused(&[&fixture("numpy.npz")], &map("uint8", ""), &Beside::default());
    assert!(refused.contains("array `uint8`: holds integers, which may be quantised codes"), "{refused}");
}

#[test]
fn arrays_of_anything_else_are_refused_by_name() {
    for (array, says) in [
        ("objects", "Python objects (a pickle), which are never read"),
        ("booleans", "booleans"),
        ("text", "text"),
        ("complex", "complex numbers"),
        ("fields", "a structured dtype"),
        ("scalar", "holds integers"),
        ("flaot64", "not in the file (did you mean `float64`?)"),
    ] {
        let refused = Desk::new().refused(&[&fixture("numpy.npz")], &map(array, ""), &Beside::default());
        assert!(refused.contains(&format!("array `{array}`")) && refused.contains(says), "{refused}");
    }
}

#[test]
fn a_file_of_one_array_needs_no_name() {
    let map = "[prompt]\ntoken_ids = [7, 8]\n[scopes.base.sites.logits]\naxes = \"row value\"\n";
    for file in ["fortran.npy", "version2.npy"] {
        let desk = Desk::new();
        let (_, trace) = desk.import(&[&fixture(file)], map, &Beside::default()).expect("imports");
        assert_eq!(only(&trace).scopes[&Scope::Base].sites[&Site::Logits].row(0), [1.5, -2.25, 0.125], "{file}");
    }
    let refused = Desk::new().refused(&[&fixture("numpy.npz")], map, &Beside::default());
    assert!(
        refused.contains("the map names no array, which is enough for a file of one, but there are 12"),
        "{refused}"
    );
}
