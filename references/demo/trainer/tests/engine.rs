//! The trainer's own forward pass against the production engine: what was trained is what is run.

use std::path::Path;

use fidelity_references::{Checkpoint, Reference};
use fidelity_trace::{BosConvention, Capture, Request, Scope, Site, Subject, Taps};

#[test]
fn the_trained_forward_is_the_engines() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let checkpoint = Checkpoint::open(&folder, "demo").expect("a checkpoint folder");
    let decoder = checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete");
    let text = "Once upon a time there was a kind girl named Anna. One day, Anna went to the forest.";
    let token_ids = checkpoint.encode(text, BosConvention::Tokenizer).expect("has a tokenizer");
    let mut capture = Capture::new(Taps::Default);
    let request = Request { token_ids: &token_ids, scopes: &[Scope::Base], continuation: None, new_tokens: 0 };
    Reference::without_noise(decoder).run(&[request], std::slice::from_mut(&mut capture)).expect("computes");
    let engine = &capture.scopes[&Scope::Base].sites[&Site::Logits];

    let trained = fidelity_demo_trainer::logits(&folder.join("model.safetensors"), &token_ids)
        .and_then(|logits| Ok(logits.to_vec2::<f32>()?));
    for (row, trained) in trained.expect("computes").iter().enumerate() {
        let pairs = || trained.iter().zip(engine.row(row)).map(|(a, b)| (f64::from(*a), f64::from(*b)));
        let error: f64 = pairs().map(|(a, b)| (a - b).powi(2)).sum();
        let energy: f64 = pairs().map(|(a, _)| a.powi(2)).sum();
        assert!((error / energy).sqrt() <= 1e-5, "row {row}: {:.2e}", (error / energy).sqrt());
    }
}
