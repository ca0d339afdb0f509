//! A baseline: what is kept of a run that later runs are held against, one small file that a person reviews. docs/GATE.md
//! explains every field.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use fidelity_trace::{ArmKind, Scope, Site};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Interval, Outcome};

/// The value of a baseline's `format`.
pub const BASELINE_FORMAT: &str = "fidelity-baseline";
/// The schema version of baselines that this crate writes and reads.
pub const BASELINE_VERSION: u32 = 1;
/// A file longer than this is no baseline: a thousand prompts take half a megabyte.
pub const BASELINE_LIMIT_BYTES: u64 = 16 << 20;

/// What a gate compares, by prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Share of rows in which the arm makes the reference's choice, ties counted as agreement.
    Top1,
    /// Pearson correlation of logits.
    Pearson,
    /// Of an encoder: cosine of the last hidden state less the reference's mean row of the prompt.
    CentredCosine,
    /// KL(reference ‖ arm), nats.
    Kl,
    /// ‖arm − reference‖² / ‖reference − mean(reference)‖².
    Nmse,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 5] = [Self::Top1, Self::Pearson, Self::CentredCosine, Self::Kl, Self::Nmse];

    /// The name in files and on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Top1 => "top1",
            Self::Pearson => "pearson",
            Self::CentredCosine => "centred_cosine",
            Self::Kl => "kl",
            Self::Nmse => "nmse",
        }
    }

    /// Whether more of it is better.
    #[must_use]
    pub const fn rises(self) -> bool {
        matches!(self, Self::Top1 | Self::Pearson | Self::CentredCosine)
    }

    /// The values that it can have.
    const fn range(self) -> [f64; 2] {
        match self {
            Self::Top1 => [0.0, 1.0],
            Self::Pearson | Self::CentredCosine => [-1.0, 1.0],
            // KL of two nearly equal rows may come out a rounding error below 0.
            Self::Kl => [-1e-3, 1e6],
            Self::Nmse => [0.0, 1e30],
        }
    }
}

/// Which checkpoint was computed, without its config.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlessedCheckpoint {
    /// Row or folder name.
    pub name: String,
    /// Where it came from.
    pub source: String,
    /// Resolved commit, if the source has any.
    pub revision: Option<String>,
    /// SHA-256 of the weight files, in name order.
    pub weights_sha256: Option<String>,
}

/// A recipe, by name and text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecipeIdentity {
    /// Its name.
    pub name: String,
    /// SHA-256 of its text.
    pub sha256: String,
}

/// The arm that was judged: what decides whether two runs may be held against each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlessedArm {
    /// Its kind.
    pub kind: ArmKind,
    /// `emulator`, or what the device calls itself.
    pub device: String,
    /// Its recipe, as far as it is known: that of an emulator, or of the one beside a device.
    pub recipe: Option<RecipeIdentity>,
    /// What its activation ranges come from.
    pub calibration: Option<String>,
    /// How position 0 is set apart, if it is.
    pub first_position: Option<String>,
    /// SHA-256 of the compiled model.
    pub hef_sha256: Option<String>,
}

/// A prompt: the unit of every test.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlessedPrompt {
    /// Its id.
    pub id: String,
    /// How many tokens it has.
    pub tokens: usize,
    /// SHA-256 of its token ids.
    pub sha256: String,
}

/// What one prompt shows in one scope.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PromptNumbers {
    /// The prompt's id.
    pub id: String,
    /// Rows compared.
    pub rows: usize,
    /// By metric, the mean over the rows that define it.
    pub means: BTreeMap<Metric, f64>,
    /// By metric, rows without a number: not finite, or one constant.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub undefined: BTreeMap<Metric, usize>,
}

/// A mean over prompts, each counted once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromptMean {
    /// The mean.
    pub mean: f64,
    /// 95 % bootstrap interval over prompts; absent with fewer than two.
    pub interval: Option<Interval>,
}

/// One scope of a baseline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlessedScope {
    /// The site whose rows are judged.
    pub judged_site: Site,
    /// Over prompts.
    pub means: BTreeMap<Metric, PromptMean>,
    /// By prompt.
    pub prompts: Vec<PromptNumbers>,
}

/// What is kept of a run to hold others against.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Baseline {
    /// Always [`BASELINE_FORMAT`].
    pub format: String,
    /// Always [`BASELINE_VERSION`].
    pub version: u32,
    /// What was computed.
    pub checkpoint: BlessedCheckpoint,
    /// By whom.
    pub arm: BlessedArm,
    /// Versions of what computed it, and hashes that decide nothing: where one differs, a gate says so.
    pub versions: BTreeMap<String, String>,
    /// What was concluded of it.
    pub verdict: Outcome,
    /// Why.
    pub reason: String,
    /// Whether its greedy text degenerates where the reference's does not.
    pub degenerate: bool,
    /// SHA-256 over ids and tokens of all prompts.
    pub prompts_sha256: String,
    /// The prompts, each sequence of tokens once.
    pub prompts: Vec<BlessedPrompt>,
    /// By scope that decides.
    pub scopes: BTreeMap<Scope, BlessedScope>,
}

/// A file that is no baseline.
#[derive(Debug, thiserror::Error)]
#[error("{origin} is not a baseline that this version reads: {reason}; make it again with `fidelity bless`")]
pub struct BaselineError {
    /// The file.
    pub origin: String,
    /// Why not.
    pub reason: String,
}

impl Baseline {
    /// Reads a baseline; `origin` names it in errors.
    ///
    /// # Errors
    /// Not JSON, another format or version, a missing field, or numbers that no run can have.
    pub fn parse(text: &str, origin: &str) -> Result<Self, BaselineError> {
        #[derive(Deserialize)]
        struct Head {
            format: String,
            version: u32,
        }
        let wrong = |reason: String| BaselineError { origin: origin.to_owned(), reason };
        let head: Head = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if head.format != BASELINE_FORMAT || head.version != BASELINE_VERSION {
            let found = format!("`{}` version {}", head.format, head.version);
            return Err(wrong(format!("it is {found}, expected `{BASELINE_FORMAT}` version {BASELINE_VERSION}")));
        }
        let baseline: Self = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        baseline.check().map_err(wrong)?;
        Ok(baseline)
    }

    /// Where it belongs: `reports/baselines/<checkpoint>/<device>/<recipe>.json`. A compiled model whose recipe is not known is
    /// `compiled`.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        let unnamed = if self.arm.kind == ArmKind::Emulator { "none" } else { "compiled" };
        let recipe = self.arm.recipe.as_ref().map_or(unnamed, |recipe| recipe.name.as_str());
        let folder = PathBuf::from("reports/baselines").join(file_name(&self.checkpoint.name));
        folder.join(file_name(&self.arm.device)).join(file_name(recipe) + ".json")
    }

    /// The text of the file: an object a line for every prompt and scope, so that a change shows as the line that it is.
    ///
    /// # Errors
    /// Never for numbers that are finite.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let mut text = String::new();
        write_lines(&serde_json::to_value(self)?, 0, &mut text);
        Ok(text + "\n")
    }

    fn check(&self) -> Result<(), String> {
        let mut known = BTreeSet::new();
        if let Some(twice) = self.prompts.iter().find(|prompt| !known.insert(prompt.id.as_str())) {
            return Err(format!("prompt {:?} stands in it twice", twice.id));
        }
        for (scope, held) in &self.scopes {
            let mut seen = BTreeSet::new();
            for prompt in &held.prompts {
                let place = format!("scopes.{scope}, prompt {:?}", prompt.id);
                if !known.contains(prompt.id.as_str()) || !seen.insert(prompt.id.as_str()) {
                    return Err(format!("{place}: is not among its prompts, or twice"));
                }
                prompt.check().map_err(|reason| format!("{place}: {reason}"))?;
            }
        }
        Ok(())
    }
}

impl PromptNumbers {
    fn check(&self) -> Result<(), String> {
        for (metric, mean) in &self.means {
            let [low, high] = metric.range();
            if !(low..=high).contains(mean) {
                return Err(format!("{} is {mean}, expected {low} to {high}", metric.name()));
            }
        }
        let undefined = self.undefined.iter().find(|(_, count)| **count > self.rows);
        undefined
            .map_or(Ok(()), |(metric, count)| Err(format!("{count} of {} rows without a {}", self.rows, metric.name())))
    }
}

/// A name that is one component of a path and nothing else.
fn file_name(name: &str) -> String {
    let plain =
        |character: char| if character.is_ascii_alphanumeric() || "._-".contains(character) { character } else { '_' };
    let name: String = name.chars().take(100).map(plain).collect();
    let name = name.trim_start_matches('.');
    if name.is_empty() { "unnamed".to_owned() } else { name.to_owned() }
}

/// Objects and lists that hold others of several entries take a line an entry; the innermost stand on one line.
fn write_lines(value: &Value, depth: usize, text: &mut String) {
    let nested = |value: &Value| value.is_object() || value.is_array();
    let entries: Vec<(Option<&String>, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (Some(key), value)).collect(),
        Value::Array(list) => list.iter().map(|value| (None, value)).collect(),
        _ => Vec::new(),
    };
    // A prompt's numbers are an object that holds one.
    let inline = depth >= 4 || !entries.iter().any(|(_, value)| nested(value)) || entries.is_empty();
    if inline && depth > 0 {
        text.push_str(&value.to_string());
        return;
    }
    let [open, close] = if value.is_array() { ['[', ']'] } else { ['{', '}'] };
    text.push(open);
    for (index, (key, value)) in entries.iter().enumerate() {
        text.push_str(if index == 0 { "\n" } else { ",\n" });
        text.push_str(&"  ".repeat(depth + 1));
        if let Some(key) = key {
            text.push_str(&Value::from(key.as_str()).to_string());
            text.push_str(": ");
        }
        write_lines(value, depth + 1, text);
    }
    text.push('\n');
    text.push_str(&"  ".repeat(depth));
    text.push(close);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn baseline() -> Baseline {
        let numbers = PromptNumbers {
            id: "a".into(),
            rows: 9,
            means: [(Metric::Top1, 0.875), (Metric::Kl, 1.25e-7)].into(),
            undefined: BTreeMap::new(),
        };
        let means = [(Metric::Top1, PromptMean { mean: 0.875, interval: None })].into();
        let scope = BlessedScope { judged_site: Site::Logits, means, prompts: vec![numbers] };
        Baseline {
            format: BASELINE_FORMAT.into(),
            version: BASELINE_VERSION,
            checkpoint: BlessedCheckpoint { name: "org/demo".into(), ..BlessedCheckpoint::default() },
            arm: BlessedArm {
                kind: ArmKind::Emulator,
                device: "emulator".into(),
                recipe: Some(RecipeIdentity { name: "../../a16w8".into(), sha256: "00".into() }),
                calibration: None,
                first_position: None,
                hef_sha256: None,
            },
            versions: BTreeMap::new(),
            verdict: Outcome::Faithful,
            reason: "why".into(),
            degenerate: false,
            prompts_sha256: "00".into(),
            prompts: vec![BlessedPrompt { id: "a".into(), tokens: 9, sha256: "00".into() }],
            scopes: [(Scope::Base, scope)].into(),
        }
    }

    #[test]
    fn what_is_written_is_read_and_a_prompt_is_a_line() {
        let text = baseline().to_json().expect("finite");
        assert_eq!(Baseline::parse(&text, "x").expect("its own"), baseline());
        let lines = text.lines().filter(|line| line.trim_start().starts_with("{\"id\":\"a\""));
        assert_eq!(lines.count(), 2, "one among the prompts, one in the scope:\n{text}");
    }

    #[test]
    fn no_name_leaves_the_folder() {
        assert_eq!(baseline().path(), PathBuf::from("reports/baselines/org_demo/emulator/_.._a16w8.json"));
        assert_eq!([file_name(""), file_name(".."), file_name("a\u{1b}/b")], ["unnamed", "unnamed", "a__b"]);
    }

    #[test]
    fn numbers_that_no_run_has_are_refused_by_place() {
        let text = baseline().to_json().expect("finite");
        for (from, to, says) in [
            ("\"top1\":0.875}", "\"top1\":1.5}", "prompt \"a\": top1 is 1.5, expected 0 to 1"),
            ("1.25e-7", "1e999", "number out of range"),
            ("1.25e-7", "NaN", "expected value"),
            ("\"rows\":9", "\"rows\":-9", "invalid value"),
            ("\"tokens\":9}", "\"tokens\":9},{\"id\":\"a\",\"sha256\":\"\",\"tokens\":1}", "stands in it twice"),
            ("\"version\": 1", "\"version\": 2", "expected `fidelity-baseline` version 1"),
            ("\"degenerate\": false,", "", "missing field `degenerate`"),
        ] {
            assert!(text.contains(from), "{from} in\n{text}");
            let error = Baseline::parse(&text.replacen(from, to, 1), "x").expect_err(to).to_string();
            assert!(error.starts_with("x is not a baseline") && error.contains(says), "{to}: {error}");
        }
    }
}
