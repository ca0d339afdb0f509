//! A real 135 M parameter checkpoint against transformers. Needs the checkpoint (538 MB, not in the repository): set
//! `FIDELITY_SMOLLM2` to its folder and `FIDELITY_SMOLLM2_GOLDEN` to golden.safetensors with transformers' values.

mod common;

use std::{env, path::Path};

use common::{Golden, golden, reference, relative_l2, run};
use fidelity_trace::{BlockSite, Capture, Scope, Site};

const TOLERANCE: f64 = 1e-5;

#[test]
fn smollm2_matches_transformers() {
    let (Ok(folder), Ok(values)) = (env::var("FIDELITY_SMOLLM2"), env::var("FIDELITY_SMOLLM2_GOLDEN")) else {
        eprintln!("did not run: FIDELITY_SMOLLM2 and FIDELITY_SMOLLM2_GOLDEN are not set");
        return;
    };
    let golden = golden(Path::new(&values));
    let reference = reference(Path::new(&folder));
    for prompt in 0..3 {
        let token_ids = &golden.integers[&format!("{prompt}/token_ids")];
        let greedy = &golden.integers[&format!("{prompt}/greedy_ids")];
        let capture = run(&reference, token_ids, greedy.len(), &[Scope::Base, Scope::TbtFree]);
        let worst = worst_row(prompt, &golden, &capture);
        eprintln!("prompt {prompt}: worst row relative L2 {worst:.2e}");
        assert!(worst <= TOLERANCE, "prompt {prompt}: {worst:.2e}");
        assert_eq!(capture.generated.as_ref(), Some(greedy), "prompt {prompt}");
    }
}

fn worst_row(prompt: usize, golden: &Golden, capture: &Capture) -> f64 {
    let sites = &capture.scopes[&Scope::Base].sites;
    let (width, last) = &golden.floats[&format!("{prompt}/logits_last2")];
    let logits = &sites[&Site::Logits];
    let first = logits.rows() - last.len() / width;
    let rows = last.chunks(*width).enumerate().map(|(row, expected)| relative_l2(expected, logits.row(first + row)));
    let mut worst = rows.fold(0.0, f64::max);
    if let Some((width, residual)) = golden.floats.get(&format!("{prompt}/resid_post")) {
        for (block, values) in residual.chunks(logits.rows() * width).enumerate() {
            let found = &sites[&Site::Block(block as u32, BlockSite::ResidPost)];
            let rows = values.chunks(*width).enumerate().map(|(row, expected)| relative_l2(expected, found.row(row)));
            worst = rows.fold(worst, f64::max);
        }
    }
    worst
}
