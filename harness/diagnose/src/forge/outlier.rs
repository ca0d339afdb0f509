//! A channel that is larger than its neighbours, or smaller, in the same function.

use std::{fmt, str::FromStr};

use fidelity_references::{Activation, Architecture, MlpKind, NormKind};
use fidelity_trace::{BlockSite, Site};

use super::{
    Draft, ForgeError, Transformation, refused,
    rescale::{Factors, Pair, kv_channel, rescaled},
    tie::Untie,
};

/// Factors lie between this and its inverse: no weight leaves the range of float32.
const LARGEST: f64 = (1_u64 << 32) as f64;

/// The largest |silu(f·x)/f − silu(x)| for f ≥ 1, that of f → ∞: max |relu(x) − silu(x)| = W(1/e).
const SILU_IS_NOT_RELU: f64 = 0.278_465;

/// A channel and what its values are multiplied by: `act=17x64`, `blocks.3.attn_norm=5x1000`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outlier {
    site: Target,
    channel: usize,
    factor: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    One(Site),
    /// That of every block.
    Every(BlockSite),
}

impl FromStr for Outlier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || "expected SITE=CHANNEL×FACTOR (`x` and `*` are taken as well), such as blocks.2.act=17x64".to_owned();
        let (site, rest) = text.split_once('=').ok_or_else(wrong)?;
        let (channel, factor) = rest.split_once(['×', 'x', '*']).ok_or_else(wrong)?;
        let site = match (BlockSite::named(site), site.parse::<Site>()) {
            (Some(of_every), _) => Target::Every(of_every),
            (None, Ok(site)) => Target::One(site),
            (None, Err(error)) => return Err(format!("{error}; {}", wrong())),
        };
        let (channel, factor) =
            (channel.trim().parse().map_err(|_| wrong())?, factor.trim().parse::<f64>().map_err(|_| wrong())?);
        let allowed = LARGEST.recip()..=LARGEST;
        match allowed.contains(&factor.abs()) {
            true => Ok(Self { site, channel, factor }),
            false => Err("a factor is a number between 2^-32 and 2^32, or its negative".to_owned()),
        }
    }
}

impl fmt::Display for Outlier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.site {
            Target::One(site) => write!(f, "{site}")?,
            Target::Every(site) => f.write_str(site.name())?,
        }
        write!(f, "={}×{}", self.channel, self.factor)
    }
}

impl Transformation for Outlier {
    fn apply(&self, draft: Draft) -> Result<Draft, ForgeError> {
        if draft.architecture.norm != NormKind::Rms {
            return Err(refused(self, "it has LayerNorm, whose checkpoints are not rescaled"));
        }
        let blocks = draft.architecture.blocks;
        let (kind, places) = match self.site {
            Target::Every(kind) => (kind, 0..blocks),
            Target::One(Site::Block(block, _)) if block as usize >= blocks => {
                return Err(refused(self, format!("it has {blocks} blocks, counted from 0")));
            }
            Target::One(Site::Block(block, kind)) => (kind, block as usize..block as usize + 1),
            Target::One(Site::FinalNorm) => return self.of_final_norm(draft),
            Target::One(Site::Embed) => (BlockSite::ResidPost, 0..blocks),
            Target::One(Site::Logits | Site::Pooled) => {
                return Err(refused(
                    self,
                    "nothing comes after logits that would take the factor off again; the nearest is final_norm, which is exact",
                ));
            }
        };
        let (pair, by_channel) = self.factors(&draft.architecture, kind)?;
        let mut draft = draft;
        if let Some(note) = shared(&draft.architecture, kind) {
            draft.notes.push(note);
        }
        let factors = places.map(|block| Factors { pair, block, by_channel: by_channel.clone() });
        Ok(rescaled(draft, factors.collect()))
    }

    fn name(&self) -> String {
        format!("--outlier {self}")
    }
}

impl Outlier {
    fn of_final_norm(&self, draft: Draft) -> Result<Draft, ForgeError> {
        let by_channel = self.own(draft.architecture.hidden)?;
        let draft = if draft.architecture.tied_head { Untie.apply(draft)? } else { draft };
        Ok(rescaled(draft, vec![Factors { pair: Pair::FinalNorm, block: 0, by_channel }]))
    }

    /// The factor at the channel that was asked for, 1 elsewhere; refused where there is no such channel.
    fn own(&self, width: usize) -> Result<Vec<f64>, ForgeError> {
        match self.channel < width {
            true => Ok(moved(width, &[self.channel], self.factor)),
            false => Err(refused(self, format!("it has {width} channels there, counted from 0"))),
        }
    }

    fn factors(&self, a: &Architecture, kind: BlockSite) -> Result<(Pair, Vec<f64>), ForgeError> {
        let (of_keys, of_queries) = (a.kv_heads * a.head_dim, a.query_heads * a.head_dim);
        let shared = kv_channel(self.channel, a.head_dim, a.query_heads / a.kv_heads.max(1));
        let gated = a.mlp_kind == MlpKind::Gated;
        match kind {
            BlockSite::AttnNorm => Ok((Pair::AttnNorm, self.own(a.hidden)?)),
            BlockSite::MlpNorm => Ok((Pair::MlpNorm, self.own(a.hidden)?)),
            BlockSite::V => Ok((Pair::Values, self.own(of_keys)?)),
            BlockSite::Z => {
                self.own(of_queries)?;
                Ok((Pair::Values, moved(of_keys, &[shared], self.factor)))
            }
            BlockSite::Up | BlockSite::Act if gated => Ok((Pair::Products, self.own(a.mlp)?)),
            BlockSite::Gate if a.activation == Activation::Relu && self.factor > 0.0 => {
                Ok((Pair::Gates, self.own(a.mlp)?))
            }
            BlockSite::Q | BlockSite::K if !a.qk_norm => {
                let queries = kind == BlockSite::Q;
                self.own(if queries { of_queries } else { of_keys })?;
                let (channel, factor) =
                    if queries { (shared, self.factor) } else { (self.channel, self.factor.recip()) };
                Ok((Pair::Queries, moved(of_keys, &turned_with(a, channel), factor)))
            }
            _ => Err(refused(self, self.impossible(a, kind))),
        }
    }

    /// Why no weight takes the factor off again, and what comes nearest.
    fn impossible(&self, a: &Architecture, kind: BlockSite) -> String {
        match kind {
            BlockSite::Scores | BlockSite::Pattern => {
                "softmax is not linear, and a head's scores have no weights that a factor could be moved into; the nearest are q \
                 and k, which are exact and leave scores as they are"
                    .to_owned()
            }
            BlockSite::Q | BlockSite::K => {
                "its queries and keys are normalised, with norm weights that all heads share: a factor before the norm is taken \
                 off by it; the nearest is v, which is exact"
                    .to_owned()
            }
            BlockSite::Gate => format!(
                "the activation of a gate is not linear: silu(f·x)/f is off from silu(x) by up to {SILU_IS_NOT_RELU:.3} for f ≥ 1, and \
                 without bound in x for f < 1; the nearest is up, which is exact and scales act alike"
            ),
            BlockSite::Up | BlockSite::Act => {
                "its MLP has no gate: what enters down is an activation, which is not linear; the nearest is mlp_norm, which is \
                 exact"
                    .to_owned()
            }
            _ => {
                let grown = (1.0 + (self.factor.powi(2) - 1.0) / a.hidden as f64).sqrt();
                format!(
                    "every norm divides the residual stream by the root mean square of all its channels, so that no weight takes a \
                     factor on one off again: of a channel of average energy among {}, {} would put every norm's output off by a \
                     factor of {:.3}; the nearest are attn_norm, mlp_norm and final_norm, which are exact",
                    a.hidden,
                    self.factor,
                    grown.recip()
                )
            }
        }
    }
}

/// The factor at these channels, 1 elsewhere.
fn moved(width: usize, channels: &[usize], factor: f64) -> Vec<f64> {
    (0..width).map(|channel| if channels.contains(&channel) { factor } else { 1.0 }).collect()
}

/// The channel of a kv head, and the one that RoPE turns with it.
fn turned_with(a: &Architecture, channel: usize) -> Vec<usize> {
    let (head, dimension) = (channel / a.head_dim * a.head_dim, channel % a.head_dim);
    match a.rope.as_ref().map(|rope| rope.dims).filter(|dims| dimension < *dims) {
        Some(dims) => vec![channel, head + (dimension + dims / 2) % dims],
        None => vec![channel],
    }
}

/// What else gets the factor.
fn shared(a: &Architecture, kind: BlockSite) -> Option<String> {
    let group = a.query_heads / a.kv_heads.max(1);
    match kind {
        BlockSite::Z if group > 1 => {
            Some(format!("the {group} query heads of a group share values: each has the channel multiplied"))
        }
        BlockSite::Q if a.rope.is_some() => Some(format!(
            "RoPE mixes a channel with its partner, so that both are multiplied, in the {group} query heads of the group"
        )),
        BlockSite::K if a.rope.is_some() => {
            Some("RoPE mixes a channel with its partner, so that both are multiplied".to_owned())
        }
        BlockSite::Up | BlockSite::Act => Some("up and act have the channel multiplied, gate has not".to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_site_a_channel_and_a_factor_are_read_and_shown() {
        for (text, shown) in [
            ("act=17×64", "act=17×64"),
            ("blocks.3.attn_norm=5x0.5", "blocks.3.attn_norm=5×0.5"),
            ("final_norm=0*-2", "final_norm=0×-2"),
            ("resid_post=1x2", "resid_post=1×2"),
        ] {
            assert_eq!(text.parse::<Outlier>().map(|outlier| outlier.to_string()), Ok(shown.to_owned()));
        }
        for wrong in
            ["", "act", "act=1", "act=x2", "act=1x", "act=1x0", "act=1xNaN", "act=1xinf", "act=1x1e30", "w=1x2"]
        {
            assert!(wrong.parse::<Outlier>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn silu_is_off_from_relu_by_no_more_than_is_said() {
        let off = |x: f64| x.abs() / (1.0 + x.abs().exp());
        let worst = (0..40_000).map(|step| off(f64::from(step) / 4000.0)).fold(0.0, f64::max);
        assert!((worst - SILU_IS_NOT_RELU).abs() < 1e-6, "{worst}");
    }
}
