//! Results of rows, sites and scopes.

use std::collections::BTreeMap;

use fidelity_trace::{OutsideRange, Scope, Site};
use serde::{Deserialize, Serialize};

use crate::{Agreement, Interval, Outcome, Summary};

/// How many rows agree, tie and flip.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Rows that agree.
    pub agree: usize,
    /// Rows that tie.
    pub ties: usize,
    /// Rows that flip.
    pub flips: usize,
    /// Rows in all.
    pub n: usize,
    /// (agree + ties) / n; absent when n is 0.
    pub rate: Option<f64>,
    /// agree / n; absent when n is 0.
    pub rate_strict: Option<f64>,
    /// 95 % bootstrap interval of `rate` over prompts; absent with fewer than two prompts.
    pub interval: Option<Interval>,
}

/// What is measured on logits beyond what is measured on every site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LogitsResult {
    /// KL(reference ‖ arm), nats.
    pub kl: Option<Summary>,
    /// Whether the arm's first choice is the reference's.
    pub top1: Rate,
    /// Whether the reference's choice is among the arm's five highest.
    pub top5: Rate,
    /// Rank of the reference's choice in the arm, 0 = first.
    pub rank: Option<Summary>,
    /// Arm's minus reference's log-probability of the reference's choice, nats.
    pub delta_log_prob: Option<Summary>,
    /// exp(mean over rows of reference's minus arm's log-probability of the token fed next); absent without such rows.
    pub perplexity_ratio: Option<f64>,
}

/// One site of one scope. A metric is absent where no row defines it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteResult {
    /// Rows compared.
    pub rows: usize,
    /// Rows with a NaN or an infinity in the arm; in no summary, never a match.
    pub non_finite_rows: usize,
    /// Rows that are one constant in the arm but not in the reference.
    pub constant_rows: usize,
    /// Rows equal to the reference bit for bit; SQNR is infinite there and they are left out of its summary.
    pub exact_rows: usize,
    /// Cosine similarity.
    pub cosine: Option<Summary>,
    /// Pearson correlation.
    pub pearson: Option<Summary>,
    /// Cosine similarity of rows less the reference's mean row of their prompt; only for the judged rows of an encoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub centred_cosine: Option<Summary>,
    /// ‖arm − reference‖ / ‖reference‖.
    pub relative_l2: Option<Summary>,
    /// ‖arm − reference‖² / ‖reference − mean(reference)‖².
    pub nmse: Option<Summary>,
    /// 10 log₁₀(‖reference‖² / ‖arm − reference‖²), dB.
    pub sqnr_db: Option<Summary>,
    /// max |arm − reference|.
    pub max_abs: Option<Summary>,
    /// ‖arm‖ / ‖reference‖.
    pub norm_ratio: Option<Summary>,
    /// Only for logits.
    #[serde(flatten)]
    pub logits: Option<LogitsResult>,
}

/// A token id and its probability.
pub type Likely = (u32, f64);

/// One row of the judged site: of logits, or of an encoder's last hidden state, where what is of logits only is absent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RowResult {
    /// Index into [`crate::Verdict::prompts`].
    pub prompt: usize,
    /// Position in the token sequence.
    pub position: u32,
    /// Token fed at this row.
    pub token_id: u32,
    /// False when the arm has a NaN or an infinity here; the metrics are absent then.
    pub finite: bool,
    /// Cosine similarity.
    pub cosine: Option<f64>,
    /// Pearson correlation.
    pub pearson: Option<f64>,
    /// Cosine similarity less the reference's mean row of the prompt; only for an encoder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub centred_cosine: Option<f64>,
    /// Relative L2.
    pub relative_l2: Option<f64>,
    /// NMSE.
    pub nmse: Option<f64>,
    /// max |Δ|.
    pub max_abs: Option<f64>,
    /// KL(reference ‖ arm), nats.
    pub kl: Option<f64>,
    /// Whether the arm makes the reference's choice.
    pub top1: Option<Agreement>,
    /// Whether the reference's choice is among the arm's five highest.
    pub top5: Option<Agreement>,
    /// The reference's choice.
    pub reference_choice: Option<u32>,
    /// The arm's choice, absent in a row that is not finite.
    pub device_choice: Option<u32>,
    /// Rank of the reference's choice in the arm, 0 = first.
    pub rank: Option<u32>,
    /// Arm's minus reference's log-probability of the reference's choice, nats.
    pub delta_log_prob: Option<f64>,
    /// What the reference holds most probable to follow, at most five, the most probable first; only in the scope that tells of
    /// this position ([`telling_scopes`]).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reference_top5: Vec<Likely>,
    /// The same of the arm; empty in a row that is not finite.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub device_top5: Vec<Likely>,
}

/// The scope that tells most of a position, by index of the prompt and position: the KV-cache's own, as text is made, before
/// `base`, and the probe `tbt_self` where there is no other.
#[must_use]
pub fn telling_scopes(scopes: &BTreeMap<Scope, ScopeResult>) -> BTreeMap<(usize, u32), Scope> {
    let order = [Scope::TbtSelf, Scope::Base, Scope::Tbt, Scope::Prefill];
    let held = order.into_iter().filter_map(|scope| Some((scope, scopes.get(&scope)?)));
    // The last one that has the row stays.
    held.flat_map(|(scope, result)| result.rows.iter().map(move |row| ((row.prompt, row.position), scope))).collect()
}

/// The first site that goes wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FirstBadSite {
    /// The site.
    pub site: Site,
    /// Median row relative L2 there; absent when most rows are not finite.
    pub median_relative_l2: Option<f64>,
    /// The reference's noise floor there, relative L2.
    pub noise_floor: Option<f64>,
    /// The site before it among those compared, which is still good.
    pub after: Option<Site>,
}

/// What was compared and what was not.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Coverage {
    /// Rows of the judged site compared.
    pub rows_compared: usize,
    /// Rows of the reference that the arm does not have.
    pub rows_missing: usize,
    /// Rows where the two were fed different tokens: not compared.
    pub rows_other_token: usize,
    /// Rows in which the reference itself is not finite: not compared.
    pub rows_reference_not_finite: usize,
    /// Prompts with at least one row compared.
    pub prompts_compared: usize,
    /// Prompts that failed or were skipped in either arm.
    pub prompts_missing: usize,
    /// Sites that both arms hold.
    pub sites_compared: usize,
    /// Sites that only the reference holds.
    pub sites_missing: usize,
}

/// Median relative L2 by site and position.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Positions, ascending.
    pub positions: Vec<u32>,
    /// By site, one entry a position: median over prompts of relative L2; absent where no row is finite.
    pub sites: BTreeMap<Site, Vec<Option<f64>>>,
}

/// How much error a block has and how much it adds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlockError {
    /// The block.
    pub block: u32,
    /// Median row relative L2 of the arm's residual stream after the block.
    pub cumulative: Option<f64>,
    /// Median over rows of ‖arm's addition − reference's addition given the arm's own input‖ / ‖the latter‖.
    pub local: Option<f64>,
}

/// What is judged where nothing else is said.
const fn logits() -> Site {
    Site::Logits
}

/// One scope of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScopeResult {
    /// What is concluded.
    pub verdict: Outcome,
    /// Why, in words.
    pub reason: String,
    /// The site whose rows are judged: `logits`, or of an encoder `final_norm`.
    #[serde(default = "logits")]
    pub judged_site: Site,
    /// The first site that goes wrong.
    pub first_bad_site: Option<Site>,
    /// The numbers behind it.
    pub first_bad_site_detail: Option<FirstBadSite>,
    /// What was compared.
    pub coverage: Coverage,
    /// By site.
    pub sites: BTreeMap<Site, SiteResult>,
    /// Local and cumulative error by block, where the arm's residual stream is known.
    pub blocks: Vec<BlockError>,
    /// Error by site and position.
    pub profile: Profile,
    /// The judged site row by row.
    pub rows: Vec<RowResult>,
    /// Of a quantised arm: values outside the ranges that were calibrated, by site.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub outside_range: BTreeMap<Site, OutsideRange>,
}

/// What the arms generated greedily.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Generated {
    /// By prompt, those of [`crate::Verdict::prompts`] in which both arms generated.
    pub prompts: Vec<usize>,
    /// The reference's ids by prompt.
    pub reference_ids: Vec<Vec<u32>>,
    /// The arm's ids by prompt.
    pub device_ids: Vec<Vec<u32>>,
    /// The reference's text by prompt, where a tokenizer was at hand.
    pub reference_text: Vec<String>,
    /// The arm's text by prompt, where a tokenizer was at hand.
    pub device_text: Vec<String>,
    /// Length of the matching prefix by prompt.
    pub matching_prefix: Vec<usize>,
    /// Index of the first differing id by prompt, absent where none differs.
    pub first_divergence: Vec<Option<usize>>,
    /// Whether the arm degenerates in any prompt in which the reference does not.
    pub degenerate: bool,
    /// The arm is degenerate, by prompt.
    pub device_degenerate: Vec<bool>,
    /// The reference is degenerate, by prompt.
    pub reference_degenerate: Vec<bool>,
}
