//! Recipes, first form: model scripts (`.alls`) of one `quantization_param` line that covers every layer.

use fidelity_trace::{Site, hex};
use sha2::{Digest, Sha256};

/// Bits of activations and weights: `a16_w8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    /// Bits of activations: 8 or 16.
    pub activation_bits: u32,
    /// Bits of weights: 4, 8 or 16.
    pub weight_bits: u32,
}

/// How a checkpoint is quantised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// Its name: the file's, without `.alls`.
    pub name: String,
    /// SHA-256 of its text.
    pub sha256: String,
    /// What every layer is quantised to.
    pub precision: Precision,
}

/// A recipe that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecipeError {
    /// A line that is not understood.
    #[error(
        "{file}:{line}: `{text}` is not understood; this version reads one line of the form `quantization_param({{*}}, precision_mode=a16_w8)` and # comments"
    )]
    Line {
        /// The file.
        file: String,
        /// 1-based line.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// Bits that nothing computes in.
    #[error(
        "{file}:{line}: precision_mode `{text}` is not supported, expected aX_wY with X = 8 or 16 and Y = 4, 8 or 16"
    )]
    Precision {
        /// The file.
        file: String,
        /// 1-based line.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// Two lines where one decides.
    #[error("{file}:{line}: a second quantization_param for all layers; keep one")]
    Repeated {
        /// The file.
        file: String,
        /// 1-based line.
        line: usize,
    },
    /// Nothing decided.
    #[error("{file}: no quantization_param line; add `quantization_param({{*}}, precision_mode=a16_w8)`")]
    Empty {
        /// The file.
        file: String,
    },
}

impl Recipe {
    /// Reads a model script. `name` becomes the recipe's name, `file` names it in errors.
    ///
    /// # Errors
    /// A line that is not understood, unsupported bits, or no decision at all.
    pub fn parse(text: &str, name: &str, file: &str) -> Result<Self, RecipeError> {
        let mut precision = None;
        for (index, line) in text.lines().enumerate() {
            let code = line.split('#').next().unwrap_or_default().trim();
            if code.is_empty() {
                continue;
            }
            let (file, line) = (file.to_owned(), index + 1);
            if precision.is_some() {
                return Err(RecipeError::Repeated { file, line });
            }
            let Some(mode) = mode(code) else {
                let text = code.chars().take(60).collect();
                return Err(RecipeError::Line { file, line, text });
            };
            let parsed = Precision::parse(mode);
            precision = Some(parsed.ok_or_else(|| RecipeError::Precision {
                file,
                line,
                text: mode.chars().take(60).collect(),
            })?);
        }
        let precision = precision.ok_or_else(|| RecipeError::Empty { file: file.to_owned() })?;
        let sha256 = hex(&Sha256::digest(text.as_bytes()));
        Ok(Self { name: name.to_owned(), sha256, precision })
    }

    /// Bits of the activation at a site; `None` where the value is not quantised there. The embedding's rows are uint16 codes
    /// already, as the run time feeds them; an encoder's token rows are made into one on the host.
    #[must_use]
    pub const fn activation_bits(&self, site: Site) -> Option<u32> {
        match site {
            Site::Embed | Site::Pooled => None,
            Site::Block(..) | Site::FinalNorm | Site::Logits => Some(self.precision.activation_bits),
        }
    }
}

fn mode(code: &str) -> Option<&str> {
    let arguments = code.strip_prefix("quantization_param")?.trim().strip_prefix('(')?.strip_suffix(')')?;
    let (layers, setting) = arguments.split_once(',')?;
    let (key, value) = setting.split_once('=')?;
    (layers.trim() == "{*}" && key.trim() == "precision_mode").then(|| value.trim())
}

impl Precision {
    fn parse(mode: &str) -> Option<Self> {
        let (activations, weights) = mode.split_once('_')?;
        let activation_bits = activations.strip_prefix('a')?.parse().ok().filter(|bits| [8, 16].contains(bits))?;
        let weight_bits = weights.strip_prefix('w')?.parse().ok().filter(|bits| [4, 8, 16].contains(bits))?;
        Some(Self { activation_bits, weight_bits })
    }
}

impl std::fmt::Display for Precision {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a{}_w{}", self.activation_bits, self.weight_bits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_decides() {
        let recipe = Recipe::parse("# all\nquantization_param( {*}, precision_mode = a8_w4 )  # x\n", "r", "r.alls")
            .expect("valid");
        assert_eq!(recipe.precision, Precision { activation_bits: 8, weight_bits: 4 });
        assert_eq!(recipe.precision.to_string(), "a8_w4");
        assert_eq!(recipe.activation_bits(Site::Embed), None);
    }

    #[test]
    fn anything_else_is_refused_at_its_line() {
        let error = |text: &str| Recipe::parse(text, "r", "r.alls").expect_err("invalid").to_string();
        assert!(
            error("\nquantization_param({conv1}, precision_mode=a8_w8)")
                .starts_with("r.alls:2: `quantization_param({conv1}")
        );
        assert!(error("quantization_param({*}, precision_mode=a7_w8)").contains("`a7_w8` is not supported"));
        assert!(
            error("quantization_param({*}, precision_mode=a8_w8)\nquantization_param({*}, precision_mode=a8_w8)")
                .contains(":2: a second")
        );
        assert!(error("# nothing\n").contains("no quantization_param line"));
    }
}
