//! Small traces to compare.

use std::collections::BTreeMap;

use fidelity_compare::{Header, NotComputed, PromptComparison, PromptSettings, compare_prompt, conclude};
use fidelity_trace::{Arm, ArmKind, CheckpointIdentity, Network, PromptTrace, Scope, ScopeTrace, Site, Status, Tensor};
use fidelity_verdict::{ArmIdentity, Arms, LogitsResult, PromptResult, ScopeResult, SiteResult, Thresholds, Verdict};

/// A tensor of equally long rows.
pub(crate) fn tensor(rows: &[Vec<f32>]) -> Tensor {
    Tensor { shape: vec![rows.len(), rows.first().map_or(0, Vec::len)], values: rows.concat() }
}

/// A scope at positions 0, 1, … fed tokens 0, 1, …
pub(crate) fn scope(sites: &[(Site, Vec<Vec<f32>>)]) -> ScopeTrace {
    let rows = sites.first().map_or(0, |(_, rows)| rows.len());
    let positions: Vec<u32> = (0..rows).map(|row| u32::try_from(row).expect("few")).collect();
    let sites = sites.iter().map(|(site, rows)| (*site, tensor(rows))).collect();
    ScopeTrace { token_ids: positions.clone(), positions, sites, logits_noise: None }
}

/// A prompt with these scopes.
pub(crate) fn prompt(scopes: impl IntoIterator<Item = (Scope, ScopeTrace)>) -> PromptTrace {
    PromptTrace { scopes: scopes.into_iter().collect() }
}

/// A prompt with these logits in scope `base`.
pub(crate) fn base_logits(rows: &[Vec<f32>]) -> PromptTrace {
    prompt([(Scope::Base, scope(&[(Site::Logits, rows.to_vec())]))])
}

/// `rows` × `width` values between −8 and 8, the same for the same seed.
pub(crate) fn random_rows(seed: u64, rows: usize, width: usize) -> Vec<Vec<f32>> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + 1;
    let mut value = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 40) as f32) / ((1_u64 << 20) as f32) - 8.0
    };
    (0..rows).map(|_| (0..width).map(|_| value()).collect()).collect()
}

/// Applies a change to every value.
pub(crate) fn map(rows: &[Vec<f32>], change: impl Fn(f32) -> f32) -> Vec<Vec<f32>> {
    rows.iter().map(|row| row.iter().map(|value| change(*value)).collect()).collect()
}

/// Compares a prompt with a reference that has no noise and an arm that has no grid.
pub(crate) fn measure(reference: &PromptTrace, device: &PromptTrace) -> PromptComparison {
    measure_of(Network::Decoder, reference, device)
}

/// The same of any kind of network.
pub(crate) fn measure_of(network: Network, reference: &PromptTrace, device: &PromptTrace) -> PromptComparison {
    let settings = PromptSettings { noise_floor: &BTreeMap::new(), logits_step: None, network };
    compare_prompt(reference, device, None, &settings)
}

/// A header for this many computed prompts.
pub(crate) fn header(prompts: usize) -> Header {
    let arm = |kind| ArmIdentity {
        arm: Arm { kind, name: String::new(), detail: Default::default() },
        deviations: Vec::new(),
        logits_step: None,
    };
    let prompt = |index| PromptResult {
        id: format!("p{index:04}"),
        text: None,
        token_ids: vec![1, 2],
        status: Status::Ok,
        error: None,
    };
    Header {
        checkpoint: CheckpointIdentity::default(),
        arms: Arms { reference: arm(ArmKind::Reference), device: arm(ArmKind::Emulator) },
        network: Network::Decoder,
        thresholds: Thresholds::compiled_in(),
        expect: Vec::new(),
        notes: Vec::new(),
        noise_floor: BTreeMap::new(),
        prompts: (0..prompts).map(prompt).collect(),
        reference_not_computed: NotComputed::default(),
        device_not_computed: NotComputed::default(),
        generated: None,
        outside_range: Vec::new(),
    }
}

/// Compares prompts pairwise and concludes, with the default header.
pub(crate) fn verdict(pairs: &[(PromptTrace, PromptTrace)]) -> Verdict {
    conclude(header(pairs.len()), pairs.iter().map(|(reference, device)| measure(reference, device)).collect())
}

/// Concludes one prompt.
pub(crate) fn verdict_of(reference: &PromptTrace, device: &PromptTrace) -> Verdict {
    verdict(&[(reference.clone(), device.clone())])
}

/// Scope `base` of a verdict.
pub(crate) fn base(verdict: &Verdict) -> &ScopeResult {
    &verdict.scopes[&Scope::Base]
}

/// The logits of scope `base`.
pub(crate) fn logits(verdict: &Verdict) -> (&SiteResult, &LogitsResult) {
    let site = &base(verdict).sites[&Site::Logits];
    (site, site.logits.as_ref().expect("logits carry their own results"))
}
