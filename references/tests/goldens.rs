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
fn greedy_ids_through_the_kv_cache_match_transformers() {
    for name in GOLDENS {
        let golden = golden(&golden_folder(name).join("golden.safetensors"));
        let capture = run(&reference(&golden_folder(name)), &golden.integers["token_ids"], 12, &[Scope::TbtFree]);
        assert_eq!(capture.generated.as_ref(), Some(&golden.integers["greedy_ids"]), "{name}");
    }
}
