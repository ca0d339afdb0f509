//! `verdict.json`: the whole of what a run concludes. docs/VERDICT.md explains every field.

use std::collections::BTreeMap;

use fidelity_trace::{Arm, CheckpointIdentity, Deviation, Scope, Status};
use serde::{Deserialize, Serialize};

use crate::{Attribution, BadSite, CLEAN, Diagnosis, Generated, Outcome, ScopeResult, Thresholds};

/// The value of `format`.
pub const FORMAT: &str = "fidelity-verdict";
/// The schema version this crate writes and reads.
pub const VERSION: u32 = 1;

/// One arm of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArmIdentity {
    /// Who it is.
    #[serde(flatten)]
    pub arm: Arm,
    /// What was done to its computation on purpose.
    pub deviations: Vec<Deviation>,
    /// The step of its logit grid by shard, if its logits lie on one.
    pub logits_step: Option<Vec<f64>>,
}

/// Both arms of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Arms {
    /// The judge.
    pub reference: ArmIdentity,
    /// The judged.
    pub device: ArmIdentity,
}

/// A prompt as it was run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptResult {
    /// Its id.
    pub id: String,
    /// Its text, if it was text.
    pub text: Option<String>,
    /// Its tokens.
    pub token_ids: Vec<u32>,
    /// Whether both arms computed it; the worse of the two.
    pub status: Status,
    /// Why not.
    pub error: Option<String>,
}

/// How intervals were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bootstrap {
    /// Seed of the resampling.
    pub seed: u64,
    /// Number of resamples.
    pub resamples: usize,
}

/// The whole of what a run concludes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`VERSION`].
    pub version: u32,
    /// What was computed.
    pub checkpoint: CheckpointIdentity,
    /// By whom.
    pub arms: Arms,
    /// What is concluded: the worst scope's verdict.
    pub verdict: Outcome,
    /// Why, in one sentence.
    pub reason: String,
    /// Verdicts that checkpoints.toml expects of this checkpoint, which exit 0.
    pub expect: Vec<String>,
    /// What the process exits with.
    pub exit_code: u8,
    /// Things a reader must know that are not verdicts.
    pub notes: Vec<String>,
    /// The thresholds applied.
    pub thresholds: Thresholds,
    /// How intervals were made.
    pub bootstrap: Bootstrap,
    /// Relative L2 of the reference's own float32 arithmetic against float64, by site.
    pub noise_floor: BTreeMap<String, f64>,
    /// By scope.
    pub scopes: BTreeMap<Scope, ScopeResult>,
    /// What the arms generated; absent when either did not.
    pub generated: Option<Generated>,
    /// The prompts.
    pub prompts: Vec<PromptResult>,
    /// The text of every token id that a row of logits names as fed or as probable, where a tokenizer was at hand.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub token_text: BTreeMap<u32, String>,
    /// Whose the distance is, where an emulator of the device's recipe was run beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attribution: Option<Attribution>,
    /// Why the arm is wrong, where that was looked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<Diagnosis>,
}

/// A verdict.json that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum VerdictError {
    /// Not JSON of this schema.
    #[error("{origin} is not a verdict of this format: {reason}; give the folder of a run, or run again")]
    Json {
        /// The file.
        origin: String,
        /// What the parser says.
        reason: String,
    },
    /// Another format or version.
    #[error(
        "{origin}: `{key}` is `{found}`, expected `{expected}`; read it with the fidelity that wrote it, or run again"
    )]
    Version {
        /// The file.
        origin: String,
        /// The key.
        key: &'static str,
        /// What was found.
        found: String,
        /// What was expected.
        expected: String,
    },
}

impl Verdict {
    /// Reads verdict.json; `origin` names it in errors.
    ///
    /// # Errors
    /// Not JSON, another format or version, or a missing field.
    pub fn parse(text: &str, origin: &str) -> Result<Self, VerdictError> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u32,
        }
        let json =
            |error: serde_json::Error| VerdictError::Json { origin: origin.to_owned(), reason: error.to_string() };
        let head: Head = serde_json::from_str(text).map_err(json)?;
        let version = |key, found: String, expected: String| VerdictError::Version {
            origin: origin.to_owned(),
            key,
            found,
            expected,
        };
        if head.format != FORMAT {
            return Err(version("format", head.format, FORMAT.into()));
        }
        if head.version != VERSION {
            return Err(version("version", head.version.to_string(), VERSION.to_string()));
        }
        let verdict: Self = serde_json::from_str(text).map_err(json)?;
        verdict.check_exit_code(origin)?;
        Ok(verdict)
    }

    /// The first bad site of the first bad scope.
    #[must_use]
    pub fn first_bad_site(&self) -> Option<BadSite> {
        self.scopes.iter().find_map(|(scope, result)| {
            let detail = result.first_bad_site_detail.as_ref()?;
            Some(BadSite { scope: *scope, site: detail.site, after: detail.after })
        })
    }

    /// Whether the recipe alone does it: what is not faithful is predicted by an emulator of the recipe without any fault, and no
    /// fault that was tried is half as far off.
    #[must_use]
    pub fn is_of_the_recipe(&self) -> bool {
        let Some(diagnosis) = &self.diagnosis else { return false };
        let wrong = matches!(self.verdict, Outcome::Degraded | Outcome::Broken);
        let by_emulator = diagnosis.name == CLEAN && diagnosis.predicted_by != "reference";
        wrong && by_emulator && diagnosis.ranked.iter().all(|it| 2.0 * it.residual > diagnosis.clean.residual)
    }

    /// A file that was edited must not turn its verdict into another exit code.
    fn check_exit_code(&self, origin: &str) -> Result<(), VerdictError> {
        let expected = self.expect.iter().any(|name| name == self.verdict.name());
        let possible: &[u8] = match self.verdict {
            Outcome::Faithful => &[0, 4],
            Outcome::Degraded | Outcome::Broken if expected => &[0, 4],
            Outcome::Degraded | Outcome::Broken => &[1],
            Outcome::Inconclusive => &[3, 4],
        };
        if possible.contains(&self.exit_code) {
            return Ok(());
        }
        let expected = format!("{possible:?} for a verdict `{}`", self.verdict);
        Err(VerdictError::Version {
            origin: origin.to_owned(),
            key: "exit_code",
            found: self.exit_code.to_string(),
            expected,
        })
    }

    /// The text of verdict.json: the same bytes for the same verdict.
    ///
    /// # Errors
    /// Never for a verdict whose numbers are finite.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self).map(|text| text + "\n")
    }
}
