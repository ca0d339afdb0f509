//! Encoders: how they are fed, padding among it, and what each row depends on.

mod common;

use std::collections::BTreeMap;

use candle_core::{Result, Tensor};
use common::{golden, golden_folder, reference, relative_l2, run};
use fidelity_references::{
    Cache, Checkpoint, Chunk, Decoder, Feed, Instrument, Part, Reference, Visibility, Wiring, local_blocks,
};
use fidelity_trace::{BlockSite, Capture, PromptTrace, Request, Scope, Site, Subject, Taps};

const TOLERANCE: f64 = 1e-5;

fn ids() -> Vec<u32> {
    golden(&golden_folder("bert").join("golden.safetensors")).integers["token_ids"].clone()
}

/// Keeps the rows of some sites, those of all chunks together.
struct Keep(BTreeMap<(Site, Option<usize>), Tensor>);

impl Instrument for Keep {
    fn at(&mut self, site: Site, part: Part, tensor: Tensor) -> Result<Tensor> {
        let chunk = match part {
            Part::All => None,
            Part::Chunk(index) => Some(index),
        };
        self.0.insert((site, chunk), tensor.clone());
        Ok(tensor)
    }
}

impl Keep {
    fn rows(&self, site: Site, chunk: Option<usize>) -> Vec<Vec<f32>> {
        self.0[&(site, chunk)].flatten_from(1).and_then(|rows| rows.to_vec2()).expect("float32")
    }
}

/// Feeds sequences side by side, each padded with token 0 to `length`.
fn padded(decoder: &Decoder, sequences: &[&[u32]], length: usize) -> Keep {
    let positions: Vec<u32> = (0..length as u32).collect();
    let fed: Vec<Vec<u32>> =
        sequences.iter().map(|ids| ids.iter().copied().chain(std::iter::repeat(0)).take(length).collect()).collect();
    let chunks = sequences.iter().zip(&fed).map(|(ids, token_ids)| Chunk {
        token_ids,
        positions: &positions,
        visibility: Visibility::Both { tokens: ids.len() as u32 },
    });
    let mut feeds: Vec<Feed<'_>> = chunks.map(|chunk| Feed { chunk, cache: None }).collect();
    let mut keep = Keep(BTreeMap::new());
    decoder.forward_together(&mut feeds, &Wiring::default(), &mut keep).expect("computes");
    keep
}

#[test]
fn a_padded_and_masked_batch_gives_the_rows_of_each_sequence_alone() {
    let (reference, ids) = (reference(&golden_folder("bert")), ids());
    let sequences = [&ids[..5], &ids[5..14], &ids[..24]];
    let batch = padded(reference.decoder(), &sequences, 32);
    for (index, sequence) in sequences.iter().enumerate() {
        let alone = run(&reference, sequence, 0, &[Scope::Base]);
        let alone = &alone.scopes[&Scope::Base].sites;
        for site in [Site::Embed, Site::Block(1, BlockSite::ResidPost), Site::FinalNorm] {
            let rows = batch.rows(site, None);
            for (row, found) in rows[32 * index..].iter().take(sequence.len()).enumerate() {
                let error = relative_l2(alone[&site].row(row), found);
                assert!(error <= TOLERANCE, "{site} of sequence {index}, row {row}: {error:.2e}");
            }
        }
        let error = relative_l2(alone[&Site::Pooled].row(0), &batch.rows(Site::Pooled, Some(index))[0]);
        assert!(error <= TOLERANCE, "pooled of sequence {index}: {error:.2e}");
    }
}

#[test]
fn padding_that_is_not_masked_is_seen() {
    let (reference, ids) = (reference(&golden_folder("bert")), ids());
    let masked = padded(reference.decoder(), &[&ids[..5]], 9);
    let attended = [&ids[..5], &[0; 4]].concat();
    let attended = padded(reference.decoder(), &[&attended], 9);
    let rows = |keep: &Keep| keep.rows(Site::FinalNorm, None)[..5].concat();
    let error = relative_l2(&rows(&masked), &rows(&attended));
    assert!(error > 0.01, "{error:.2e}");
}

#[test]
fn every_row_depends_on_every_token() {
    let (reference, ids) = (reference(&golden_folder("bert")), ids());
    let last_hidden =
        |ids: &[u32]| run(&reference, ids, 0, &[Scope::Base]).scopes[&Scope::Base].sites[&Site::FinalNorm].clone();
    let plain = last_hidden(&ids[..8]);
    for poked in 0..8 {
        let mut other = ids[..8].to_vec();
        other[poked] = (other[poked] + 1) % 320;
        let moved = last_hidden(&other);
        for row in 0..8 {
            assert!(relative_l2(plain.row(row), moved.row(row)) > 1e-4, "token {poked} does not reach row {row}");
        }
    }
}

#[test]
fn one_token_ends_attention_at_itself() {
    // P1: with one key every weight is 1, so that q, k and their biases cannot matter.
    let reference = reference(&golden_folder("bert"));
    let capture = run(&reference, &ids()[..1], 0, &[Scope::Base]);
    let sites = &capture.scopes[&Scope::Base].sites;
    let pattern = &sites[&Site::Block(0, BlockSite::Pattern)].values;
    assert!(pattern.iter().all(|weight| (weight - 1.0).abs() < f32::EPSILON), "{pattern:?}");
    assert_eq!(sites[&Site::Pooled].values, sites[&Site::FinalNorm].values, "the mean of one row");
}

#[test]
fn the_sites_an_architecture_names_are_those_that_are_seen() {
    for name in common::GOLDENS.into_iter().chain(["bert"]) {
        let reference = reference(&golden_folder(name));
        let capture = run(&reference, &[1, 2, 3], 0, &[Scope::Base]);
        let seen: Vec<Site> = capture.scopes[&Scope::Base].sites.keys().copied().collect();
        assert_eq!(seen, reference.decoder().architecture().sites().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn prompts_together_compute_what_each_computes_alone_and_nothing_is_generated() {
    let (reference, ids) = (reference(&golden_folder("bert")), ids());
    let prompts = [&ids[..], &ids[3..11], &ids[..1]];
    let requests =
        prompts.map(|token_ids| Request { token_ids, scopes: &[Scope::Base], continuation: None, new_tokens: 0 });
    let mut together = vec![Capture::new(Taps::All); prompts.len()];
    reference.run(&requests, &mut together).expect("computes");
    for (token_ids, together) in prompts.iter().zip(&together) {
        assert_eq!(together.generated, None);
        assert_eq!(together.scopes.len(), 1);
        let alone = run(&reference, token_ids, 0, &[Scope::Base]);
        for (site, tensor) in &alone.scopes[&Scope::Base].sites {
            let other = &together.scopes[&Scope::Base].sites[site];
            assert_eq!(other.shape, tensor.shape, "{site}");
            assert!(relative_l2(&tensor.values, &other.values) <= TOLERANCE, "{site}");
        }
    }
}

#[test]
fn a_noise_floor_is_measured_at_every_site() {
    let checkpoint = Checkpoint::open(&golden_folder("bert"), "golden").expect("supported");
    let decoder = checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete");
    let measured = Reference::with_noise(decoder);
    let floor = run(&measured, &ids(), 0, &[Scope::Base]).noise_floor;
    assert_eq!(floor.len(), checkpoint.architecture().sites().count());
    for site in [Site::FinalNorm, Site::Pooled] {
        assert!(floor[&site] > 1e-9 && floor[&site] < 1e-5, "{site}: {:.2e}", floor[&site]);
    }
}

#[test]
fn feeding_it_as_a_decoder_is_refused_and_so_is_the_opposite() {
    let refused = |folder: &str, token_ids: &[u32], positions: &[u32], visibility, cached: bool| {
        let reference = reference(&golden_folder(folder));
        let mut cache = Cache::new(reference.decoder(), 9).expect("fits");
        let chunk = Chunk { token_ids, positions, visibility };
        let cache = cached.then_some(&mut cache);
        let outcome = reference.decoder().forward(&chunk, cache, &Wiring::default(), &mut Keep(BTreeMap::new()));
        outcome.err().map(|error| error.to_string()).unwrap_or_default()
    };
    let both = |tokens| Visibility::Both { tokens };
    assert_eq!(refused("bert", &[1, 2], &[0, 1], both(2), false), "");
    assert!(
        refused("bert", &[1, 2], &[0, 1], Visibility::Causal, false).contains("Causal is not for a network of kind")
    );
    assert!(refused("bert", &[1, 2], &[0, 1], Visibility::SelfOnly, false).contains("is not for"));
    assert!(refused("bert", &[1, 2], &[0, 1], both(2), true).contains("no KV-cache"));
    assert!(refused("bert", &[1, 2], &[1, 2], both(2), false).contains("its whole sequence at once"));
    assert!(refused("bert", &[1, 2], &[0, 1], both(3), false).contains("its whole sequence at once"));
    assert!(refused("bert", &[1, 2], &[0, 1], both(0), false).contains("its whole sequence at once"));
    assert!(refused("llama-gqa", &[1, 2], &[0, 1], both(2), false).contains("is not for"));
}

#[test]
fn a_block_alone_makes_of_the_reference_s_own_input_what_it_made_of_it() {
    let (reference, ids) = (reference(&golden_folder("bert")), ids());
    let capture = run(&reference, &ids, 0, &[Scope::Base]);
    let trace = PromptTrace { scopes: capture.scopes.clone() };
    let local = local_blocks(reference.decoder(), ids.len(), &trace).expect("computes").expect("whole");
    for block in 0..3 {
        let site = Site::Block(block, BlockSite::ResidPost);
        let (own, alone) = (&capture.scopes[&Scope::Base].sites[&site], &local.scopes[&Scope::Base].sites[&site]);
        assert!(relative_l2(&own.values, &alone.values) <= TOLERANCE, "{site}");
    }
    let part = local_blocks(reference.decoder(), ids.len() + 1, &trace).expect("computes");
    assert!(part.is_none(), "rows of a part of the prompt do not say what its blocks make of it");
}
