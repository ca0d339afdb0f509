//! The decoder against transformers 5.24.0 (float32, eager), every stored site, row by row.

mod common;

use common::{GOLDENS, golden, golden_folder, reference, run, sites::worst_rows};
use fidelity_trace::Scope;

#[test]
fn every_stored_site_matches_transformers() {
    for name in GOLDENS {
        let golden = golden(&golden_folder(name).join("golden.safetensors"));
        let capture = run(&reference(&golden_folder(name)), &golden.integers["token_ids"], 12, &Scope::ALL);
        for (site, worst) in worst_rows(name, &golden, &capture) {
            assert!(worst.is_held(), "{name}: {site}: {worst:?}");
        }
    }
}

#[test]
fn every_stored_site_of_the_encoder_matches_transformers() {
    let golden = golden(&golden_folder("bert").join("golden.safetensors"));
    let capture = run(&reference(&golden_folder("bert")), &golden.integers["token_ids"], 0, &[Scope::Base]);
    for (site, worst) in worst_rows("bert", &golden, &capture) {
        assert!(worst.is_held(), "bert: {site}: {worst:?}");
    }
}

#[test]
fn greedy_ids_through_the_kv_cache_match_transformers() {
    for name in GOLDENS {
        let golden = golden(&golden_folder(name).join("golden.safetensors"));
        let capture = run(&reference(&golden_folder(name)), &golden.integers["token_ids"], 12, &[Scope::TbtFree]);
        assert_eq!(capture.generated.as_ref(), Some(&golden.integers["greedy_ids"]), "{name}");
    }
}

#[test]
fn one_pass_finds_the_first_id_that_is_not_the_references_own() {
    for name in GOLDENS {
        let golden = golden(&golden_folder(name).join("golden.safetensors"));
        let (token_ids, greedy) = (&golden.integers["token_ids"], &golden.integers["greedy_ids"]);
        let reference = reference(&golden_folder(name));
        let first = |ids: &[u32]| reference.first_divergence(token_ids, ids).expect("computes");
        assert_eq!(first(greedy), None, "{name}");
        for index in [0, 5, greedy.len() - 1] {
            let mut other = greedy.clone();
            other[index] = (other[index] + 1) % 300;
            assert_eq!(first(&other), Some(index), "{name}");
        }
    }
}
