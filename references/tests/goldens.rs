//! The decoder against transformers 5.24.0 (float32, eager), every stored site, row by row.

mod common;

use common::{GOLDENS, Golden, golden, golden_folder, reference, relative_l2, run};
use fidelity_trace::{Capture, Scope, Site};

/// Per-row bound on relative L2: five times the float32 noise measured on a 135 M parameter model.
const TOLERANCE: f64 = 1e-5;

#[test]
fn every_stored_site_matches_transformers() {
    for name in GOLDENS {
        let golden = golden(&golden_folder(name).join("golden.safetensors"));
        let token_ids = &golden.integers["token_ids"];
        let capture = run(&reference(&golden_folder(name)), token_ids, 12, &Scope::ALL);
        let compared = compare_sites(name, &golden, &capture);
        assert_eq!(
            compared,
            4 + 3 * blocks(&capture),
            "{name}: embed, logits, three sites a block, final_norm by two names"
        );
    }
}

#[test]
fn every_stored_site_of_the_encoder_matches_transformers() {
    let golden = golden(&golden_folder("bert").join("golden.safetensors"));
    let capture = run(&reference(&golden_folder("bert")), &golden.integers["token_ids"], 0, &[Scope::Base]);
    let compared = compare_sites("bert", &golden, &capture);
    assert_eq!(compared, 2 + 3 * blocks(&capture), "embed, the last hidden state and three sites of each block");
}

fn blocks(capture: &Capture) -> u32 {
    capture.scopes[&Scope::Base].sites.keys().filter_map(|site| site.block()).max().map_or(0, |last| last + 1)
}

fn compare_sites(name: &str, golden: &Golden, capture: &Capture) -> u32 {
    let mut compared = 0;
    for (tensor, (width, values)) in &golden.floats {
        let site = match tensor.as_str() {
            "last_hidden_state" => Site::FinalNorm,
            name => name.parse().expect("a site"),
        };
        let found = &capture.scopes[&Scope::Base].sites[&site];
        assert_eq!(found.rows() * width, values.len(), "{name}: {site}");
        for (row, expected) in values.chunks(*width).enumerate() {
            let error = relative_l2(expected, found.row(row));
            assert!(error <= TOLERANCE, "{name}: {site} row {row}: relative L2 {error:.2e}");
        }
        compared += 1;
    }
    compared
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
