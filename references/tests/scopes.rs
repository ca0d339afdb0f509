//! How tokens are fed: the KV-cache, and the scopes against each other.

mod common;

use candle_core::{Result, Tensor};
use common::{GOLDENS, golden, golden_folder, reference, relative_l2, run};
use fidelity_references::{Cache, Chunk, Decoder, Instrument, Part, Visibility, Wiring};
use fidelity_trace::{BlockSite, Capture, Request, Scope, Site, Subject, Taps};

/// Twice the float32 noise of a step against a whole sequence, which sum in different orders.
const TOLERANCE: f64 = 1e-5;
const NEW_TOKENS: usize = 10;

fn prompt(name: &str) -> Vec<u32> {
    golden(&golden_folder(name).join("golden.safetensors")).integers["token_ids"].clone()
}

/// Counts rows at every site and keys of every row of attention.
#[derive(Default)]
struct Counter {
    rows: usize,
    keys: usize,
}

impl Instrument for Counter {
    fn at(&mut self, site: Site, _: Part, tensor: Tensor) -> Result<Tensor> {
        match site {
            Site::Block(_, BlockSite::Scores) => self.keys += tensor.dim(1)? * tensor.dim(2)?,
            Site::Block(_, BlockSite::Pattern) => {}
            _ => self.rows += tensor.dim(0)?,
        }
        Ok(tensor)
    }
}

fn forward(
    decoder: &Decoder,
    ids: &[u32],
    start: u32,
    cache: Option<&mut Cache>,
    instrument: &mut dyn Instrument,
) -> Tensor {
    let positions: Vec<u32> = (start..).take(ids.len()).collect();
    let chunk = Chunk { token_ids: ids, positions: &positions, visibility: Visibility::Causal };
    decoder.forward(&chunk, cache, &Wiring::default(), instrument).expect("computes")
}

#[test]
fn a_step_computes_one_row_and_reads_each_key_once() {
    let reference = reference(&golden_folder("llama-gqa"));
    let decoder = reference.decoder();
    let ids = prompt("llama-gqa");
    let mut cache = Cache::new(decoder, ids.len()).expect("fits");
    forward(decoder, &ids[..8], 0, Some(&mut cache), &mut Counter::default());
    for (step, position) in (8..ids.len()).enumerate() {
        let mut counter = Counter::default();
        forward(decoder, &ids[position..=position], position as u32, Some(&mut cache), &mut counter);
        // embed, final_norm, logits and 13 sites besides scores and pattern in each of 3 blocks: one row each.
        assert_eq!((counter.rows, counter.keys), (3 + 3 * 13, 3 * (8 + step + 1)), "step {step}");
    }
}

#[test]
fn a_full_cache_is_an_error() {
    let reference = reference(&golden_folder("llama-gqa"));
    let mut cache = Cache::new(reference.decoder(), 2).expect("fits");
    let chunk = Chunk { token_ids: &[1, 2, 3], positions: &[0, 1, 2], visibility: Visibility::Causal };
    let error = reference.decoder().forward(&chunk, Some(&mut cache), &Wiring::default(), &mut Counter::default());
    assert!(error.expect_err("too long").to_string().contains("the KV-cache holds 2 tokens, 3 are needed"));
}

#[test]
fn prefill_through_an_empty_cache_equals_no_cache_bit_for_bit() {
    for name in GOLDENS {
        let reference = reference(&golden_folder(name));
        let ids = prompt(name);
        let mut cache = Cache::new(reference.decoder(), 99).expect("fits");
        let values = |logits: Tensor| logits.to_vec2::<f32>().expect("float32");
        let with = values(forward(reference.decoder(), &ids, 0, Some(&mut cache), &mut Counter::default()));
        let without = values(forward(reference.decoder(), &ids, 0, None, &mut Counter::default()));
        assert!(with == without, "{name}");
    }
}

#[test]
fn tbt_equals_base_on_the_whole_sequence() {
    // Under dynamic RoPE past its positions, keys in the cache keep the angle of a shorter sequence, as in transformers.
    for name in GOLDENS.into_iter().filter(|name| *name != "llama-rope-dynamic") {
        let reference = reference(&golden_folder(name));
        let ids = prompt(name);
        let stepped = run(&reference, &ids, NEW_TOKENS, &Scope::ALL);
        let tbt = &stepped.scopes[&Scope::Tbt];
        assert_eq!(tbt.positions, (ids.len() as u32..).take(NEW_TOKENS - 1).collect::<Vec<_>>());
        let whole = [ids.as_slice(), &tbt.token_ids].concat();
        let whole = run(&reference, &whole, 1, &[Scope::Base]);
        for (site, tensor) in &tbt.sites {
            let whole = &whole.scopes[&Scope::Base].sites[site];
            for (row, position) in tbt.positions.iter().enumerate() {
                // Rows of scores are as wide as each run is long; both hold every key up to the position.
                let error = relative_l2(
                    &prefixes(whole.row(*position as usize), whole.shape.as_slice(), *position),
                    &prefixes(tensor.row(row), tensor.shape.as_slice(), *position),
                );
                assert!(error <= TOLERANCE, "{name}: {site} at {position}: {error:.2e}");
            }
        }
    }
}

/// A row as it is, or for `[row, head, key]` the keys up to `position` of each head.
fn prefixes(row: &[f32], shape: &[usize], position: u32) -> Vec<f32> {
    match shape {
        [_, _, keys] if *keys > position as usize && *keys > 24 => {
            row.chunks(*keys).flat_map(|head| &head[..=position as usize]).copied().collect()
        }
        _ => row.to_vec(),
    }
}

#[test]
fn tbt_self_equals_a_one_token_run_at_that_position() {
    let reference = reference(&golden_folder("llama-gqa"));
    let capture = run(&reference, &prompt("llama-gqa"), NEW_TOKENS, &Scope::ALL);
    let probe = &capture.scopes[&Scope::TbtSelf];
    assert_eq!(probe.token_ids, capture.scopes[&Scope::Tbt].token_ids);
    for (row, (position, id)) in probe.positions.iter().zip(&probe.token_ids).enumerate() {
        let alone = forward(reference.decoder(), &[*id], *position, None, &mut Counter::default());
        let alone = alone.flatten_all().and_then(|logits| logits.to_vec1::<f32>()).expect("float32");
        let error = relative_l2(&alone, probe.sites[&Site::Logits].row(row));
        assert!(error <= TOLERANCE, "position {position}: {error:.2e}");
    }
}

#[test]
fn without_noise_measured_there_is_none_and_with_it_there_is_little() {
    let folder = golden_folder("llama-gqa");
    let ids = prompt("llama-gqa");
    assert!(run(&reference(&folder), &ids, 4, &Scope::ALL).noise_floor.is_empty());
    let checkpoint = fidelity_references::Checkpoint::open(&folder, "golden").expect("supported");
    let decoder = checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete");
    let measured = fidelity_references::Reference::with_noise(decoder);
    let capture = run(&measured, &ids, 4, &Scope::ALL);
    assert_eq!(capture.noise_floor.len(), measured.decoder().architecture().sites().count());
    // The embedding is read, not computed.
    assert!(capture.noise_floor[&Site::Embed].abs() < f64::EPSILON);
    let logits = capture.noise_floor[&Site::Logits];
    assert!(logits > 1e-9 && logits < 1e-5, "{logits:.2e}");
    for scope in [Scope::Base, Scope::Prefill, Scope::Tbt] {
        let rows = capture.scopes[&scope].positions.len();
        assert_eq!(capture.scopes[&scope].logits_noise.as_ref().map(Vec::len), Some(rows), "{scope}");
    }
}

#[test]
fn an_arm_is_fed_the_reference_ids_and_its_own_only_when_free() {
    let reference = reference(&golden_folder("llama-gqa"));
    let ids = prompt("llama-gqa");
    let forced = [7, 8, 9, 10];
    let mut capture = Capture::new(Taps::Default);
    let request = Request { token_ids: &ids, scopes: &Scope::ALL, continuation: Some(&forced), new_tokens: 4 };
    reference.run(&[request], std::slice::from_mut(&mut capture)).expect("computes");
    assert_eq!(capture.scopes[&Scope::Tbt].token_ids, forced[..3]);
    assert_eq!(capture.scopes[&Scope::TbtSelf].token_ids, forced[..3]);
    let own = run(&reference, &ids, 4, &[Scope::TbtFree]).generated;
    assert_eq!(capture.generated, own, "free generation does not depend on what was forced");
    assert!(!capture.scopes.contains_key(&Scope::TbtFree));
}

#[test]
fn prompts_in_lockstep_compute_what_each_computes_alone() {
    for name in ["llama-gqa", "llama-rope-dynamic", "qwen2-window", "gpt2"] {
        let reference = reference(&golden_folder(name));
        let ids = prompt(name);
        let prompts = [&ids[..], &ids[3..11], &ids[..1]];
        let requests = prompts.map(|token_ids| Request {
            token_ids,
            scopes: &Scope::ALL,
            continuation: None,
            new_tokens: NEW_TOKENS,
        });
        let mut together = vec![Capture::new(Taps::All); prompts.len()];
        reference.run(&requests, &mut together).expect("computes");
        for (token_ids, together) in prompts.iter().zip(&together) {
            let alone = run(&reference, token_ids, NEW_TOKENS, &Scope::ALL);
            assert_eq!(together.generated, alone.generated, "{name}");
            for (scope, captured) in &alone.scopes {
                let other = &together.scopes[scope];
                assert_eq!((&captured.positions, &captured.token_ids), (&other.positions, &other.token_ids));
                for (site, tensor) in &captured.sites {
                    let error = relative_l2(&tensor.values, &other.sites[site].values);
                    assert!(error <= TOLERANCE, "{name}: {scope}/{site}: {error:.2e}");
                }
            }
        }
    }
}
