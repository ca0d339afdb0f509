//! The rotary embedding's settings, in both dialects of config.json.

use serde_json::{Value, json};

use crate::{CheckpointError, keys::Keys};

/// The rotary embedding (Su et al. 2021).
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Base of the frequencies.
    pub theta: f64,
    /// Leading dimensions of a head that are rotated; dimension i pairs with i + dims / 2.
    pub dims: usize,
    /// How frequencies are changed for longer sequences.
    pub scaling: RopeScaling,
}

/// How frequencies are changed for longer sequences. The formulas are in `decoder/rope.rs`.
#[derive(Clone, Debug, PartialEq)]
pub enum RopeScaling {
    /// Not at all.
    None,
    /// Frequencies divided by a factor.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// The base grows with the sequence once it is longer than the checkpoint was made for.
    Dynamic {
        /// The factor.
        factor: f64,
        /// Positions up to which nothing changes.
        max_positions: usize,
    },
    /// Low frequencies divided, high ones kept, a blend between.
    Llama3 {
        /// The factor.
        factor: f64,
        /// Wavelengths above original / this are divided.
        low_freq_factor: f64,
        /// Wavelengths below original / this are kept.
        high_freq_factor: f64,
        /// Positions of the original training.
        original: usize,
    },
    /// YaRN (Peng et al. 2023): a ramp over dimensions, and cos and sin scaled.
    Yarn {
        /// The factor.
        factor: f64,
        /// Rotations above which a dimension is kept.
        beta_fast: f64,
        /// Rotations below which a dimension is divided.
        beta_slow: f64,
        /// Positions of the original training.
        original: usize,
        /// What cos and sin are multiplied by.
        attention_factor: f64,
        /// The ramp's ends are rounded outwards to whole dimensions.
        truncate: bool,
    },
}

impl RopeScaling {
    /// What positions are divided by at most, where there is one number for it.
    pub(crate) const fn factor(&self) -> Option<f64> {
        match self {
            Self::None => None,
            Self::Linear { factor }
            | Self::Dynamic { factor, .. }
            | Self::Llama3 { factor, .. }
            | Self::Yarn { factor, .. } => Some(*factor),
        }
    }
}

/// A non-null legacy `rope_scaling` replaces `rope_parameters`; theta inside the dict wins over the top-level one.
pub(super) fn take(
    keys: &mut Keys,
    default_theta: f64,
    head_dim: usize,
    max_positions: usize,
) -> Result<Rope, CheckpointError> {
    let top_theta = keys.number("rope_theta")?;
    let top_factor = keys.number("partial_rotary_factor")?;
    let parameters = keys.object("rope_parameters")?;
    let scaling = keys.object("rope_scaling")?;
    let (mut theta, mut factor) = (top_theta, top_factor);
    let scaling = match scaling.or(parameters) {
        None => RopeScaling::None,
        Some(mut dict) => {
            theta = dict.number("rope_theta")?.or(theta);
            factor = dict.number("partial_rotary_factor")?.or(factor);
            let scaling = variant(&mut dict, max_positions)?;
            dict.finish(&[])?;
            scaling
        }
    };
    let dims = (head_dim as f64 * factor.unwrap_or(1.0)) as usize;
    if dims == 0 || dims > head_dim || !dims.is_multiple_of(2) {
        let expected = format!("a share of head_dim {head_dim} that leaves an even number of dimensions");
        return Err(keys.wrong("partial_rotary_factor", Some(&json!(factor)), expected));
    }
    Ok(Rope { theta: theta.unwrap_or(default_theta), dims, scaling })
}

fn variant(dict: &mut Keys, max_positions: usize) -> Result<RopeScaling, CheckpointError> {
    let (new, old) = (dict.text("rope_type")?, dict.text("type")?);
    let key = if new.is_some() { "rope_type" } else { "type" };
    let kind = new.or(old).unwrap_or_else(|| "default".to_owned());
    let required = |dict: &mut Keys, key: &str| match dict.number(key)? {
        Some(value) => Ok(value),
        None => Err(dict.wrong(key, None, format!("a positive number for rope type \"{kind}\""))),
    };
    match kind.as_str() {
        "default" => Ok(RopeScaling::None),
        "linear" => Ok(RopeScaling::Linear { factor: required(dict, "factor")? }),
        "dynamic" => {
            // Written by some tools; the formula takes max_position_embeddings.
            dict.only("original_max_position_embeddings", &json!(max_positions))?;
            Ok(RopeScaling::Dynamic { factor: required(dict, "factor")?, max_positions })
        }
        "llama3" => {
            let [factor, low_freq_factor, high_freq_factor] =
                ["factor", "low_freq_factor", "high_freq_factor"].map(|key| required(dict, key));
            let original = dict.required_size("original_max_position_embeddings")?;
            let (low_freq_factor, high_freq_factor) = (low_freq_factor?, high_freq_factor?);
            if low_freq_factor >= high_freq_factor {
                return Err(dict.wrong(
                    "low_freq_factor",
                    Some(&json!(low_freq_factor)),
                    format!("less than high_freq_factor = {high_freq_factor}"),
                ));
            }
            Ok(RopeScaling::Llama3 { factor: factor?, low_freq_factor, high_freq_factor, original })
        }
        "yarn" => yarn(dict, max_positions),
        _ => Err(dict.wrong(
            key,
            Some(&Value::String(kind)),
            "\"default\", \"linear\", \"dynamic\", \"llama3\" or \"yarn\": other RoPE variants are not supported",
        )),
    }
}

fn yarn(dict: &mut Keys, max_positions: usize) -> Result<RopeScaling, CheckpointError> {
    let Some(factor) = dict.number("factor")? else {
        return Err(dict.wrong("factor", None, "a positive number for rope type \"yarn\""));
    };
    let explicit = dict.number("attention_factor")?;
    let mscales = (dict.number("mscale")?, dict.number("mscale_all_dim")?);
    let magnitude = |mscale: f64| if factor <= 1.0 { 1.0 } else { 0.1 * mscale * factor.ln() + 1.0 };
    let attention_factor = explicit.unwrap_or_else(|| match mscales {
        (Some(mscale), Some(all)) => magnitude(mscale) / magnitude(all),
        _ => magnitude(1.0),
    });
    Ok(RopeScaling::Yarn {
        factor,
        beta_fast: dict.number("beta_fast")?.unwrap_or(32.0),
        beta_slow: dict.number("beta_slow")?.unwrap_or(1.0),
        original: dict.size("original_max_position_embeddings")?.unwrap_or(max_positions),
        attention_factor,
        truncate: dict.boolean("truncate")?.unwrap_or(true),
    })
}
