//! Injected faults that are in what a decoder is made of: weights, constants, the order of its blocks.

use std::sync::Arc;

use candle_core::{Device, Result, Tensor, bail};
use fidelity_trace::{Fault, FaultValue, Intervention};

use super::{
    Block, Decoder, Step, Weights, Wiring,
    attention::Attention,
    operations::{Linear, Norm},
};
use crate::Activation;

impl Decoder {
    /// A decoder with faults and the wiring it is to be run with: those that are in weights, constants and the order of blocks
    /// are in the former, which shares all other weights with this one, the rest in the latter.
    ///
    /// # Errors
    /// A fault does not fit the architecture, or memory runs out.
    pub fn with_faults(&self, interventions: Vec<Intervention>) -> Result<(Self, Wiring)> {
        let mut weights = (*self.weights).clone();
        for intervention in &interventions {
            weights.break_by(intervention)?;
        }
        for (layer, block) in weights.architecture.layers.iter_mut().zip(&weights.blocks) {
            *layer = block.attention.layer;
        }
        Ok((Self { weights: Arc::new(weights), dtype: self.dtype }, Wiring::new(interventions)))
    }
}

impl Weights {
    fn break_by(&mut self, intervention: &Intervention) -> Result<()> {
        let word = intervention.word();
        let number = intervention.number();
        match intervention.fault {
            Fault::ScoreScale => self.scale_scores(intervention),
            Fault::WindowIgnored => self.each_attention(intervention, |attention| attention.layer.window = None),
            Fault::WindowOffByOne => self.each_attention(intervention, |attention| {
                let wider = |window: u32| window.saturating_add_signed(number.unwrap_or(1.0) as i32).max(1);
                attention.layer.window = attention.layer.window.map(wider);
            }),
            Fault::WindowWrongLayers => self.move_windows(intervention),
            Fault::AttentionBiasDropped => self.each_attention(intervention, |attention| {
                let dropped = |name: &str| word == "all" || word == name || name != "o" && word.contains(name);
                let Attention { q, k, v, o, .. } = attention;
                for (linear, name) in [(q, "q"), (k, "k"), (v, "v"), (o, "o")] {
                    if dropped(name) {
                        *linear = linear.unbiased();
                    }
                }
            }),
            Fault::MlpBiasDropped => self.each_block(intervention, |block| {
                let of = |name: &str| word == "all" || word == name;
                let linears = [("up", &mut block.up), ("down", &mut block.down)].into_iter();
                for (name, linear) in linears.chain(block.gate.as_mut().map(|gate| ("gate", gate))) {
                    if of(name) {
                        *linear = linear.unbiased();
                    }
                }
                Ok(())
            })?,
            Fault::QkNormMissing => self.each_attention(intervention, |attention| attention.without_norm_of(word)),
            Fault::NormWeight => self.change_norms(intervention)?,
            Fault::NormEps => {
                let Some(eps) = number else { bail!("norm_eps needs a value") };
                if intervention.block.is_none() {
                    self.final_norm.iter_mut().chain(&mut self.embedding_norm).for_each(|norm| norm.set_eps(eps));
                }
                self.each_block(intervention, |block| {
                    let of_heads = block.attention.q_norm.iter_mut().chain(&mut block.attention.k_norm);
                    [&mut block.attn_norm, &mut block.mlp_norm]
                        .into_iter()
                        .chain(of_heads)
                        .for_each(|n| n.set_eps(eps));
                    Ok(())
                })?;
            }
            Fault::LayerSkipped | Fault::LayerDuplicated | Fault::LayersSwapped => self.reorder(intervention),
            Fault::HeadTied => self.tie_head()?,
            Fault::ActivationExchanged => self.each_block(intervention, |block| {
                block.activation = block.activation.exchanged(word);
                Ok(())
            })?,
            Fault::HeadMissing | Fault::ShardsSwapped | Fault::VocabPadded => {
                let mut from = logits_from(intervention, self.architecture.vocabulary);
                from.truncate(self.architecture.vocabulary);
                self.logits_from = Some(from);
            }
            Fault::Int4Group => {
                let group = number.unwrap_or(64.0) as usize;
                self.each_block(intervention, |block| block.in_four_bits(group))?;
            }
            Fault::EmbeddingScale => {
                self.embedding_scale = number.unwrap_or_else(|| (self.architecture.hidden as f64).sqrt());
            }
            // Of wiring, tokens and values.
            Fault::SoftmaxAcrossHeads
            | Fault::MaskRepeated
            | Fault::MaskMissing
            | Fault::MaskOffsetLost
            | Fault::GqaTile
            | Fault::RopeMissing
            | Fault::RopeSign
            | Fault::RopeInterleaved
            | Fault::RopeTwice
            | Fault::RopeTheta
            | Fault::RopeScalingIgnored
            | Fault::RopeMagnitude
            | Fault::RopeTableTiledTwice
            | Fault::RopeTableLowPrecision
            | Fault::RopeTablesDiffer
            | Fault::PositionShift
            | Fault::BosMissing
            | Fault::BosDoubled
            | Fault::KvLayout
            | Fault::KvOffset
            | Fault::KvRotated
            | Fault::KvStale
            | Fault::KvHistoryLost
            | Fault::KvTruncated
            | Fault::ActivationClipped
            | Fault::CalibrationRange
            | Fault::ResidualEightBit
            | Fault::Overflow
            | Fault::MaskedRowNan => {}
        }
        Ok(())
    }

    fn tie_head(&mut self) -> Result<()> {
        let Some(table) = &self.embedding else { bail!("the head is the embedding already") };
        self.head = Some(Linear::new(table, None)?);
        Ok(())
    }

    fn each_block(&mut self, intervention: &Intervention, change: impl Fn(&mut Block) -> Result<()>) -> Result<()> {
        let here = |(index, _): &(usize, &mut Block)| intervention.acts_in(*index as u32);
        self.blocks.iter_mut().enumerate().filter(here).try_for_each(|(_, block)| change(block))
    }

    fn each_attention(&mut self, intervention: &Intervention, change: impl Fn(&mut Attention)) {
        let here = |(index, _): &(usize, &mut Block)| intervention.acts_in(*index as u32);
        self.blocks.iter_mut().enumerate().filter(here).for_each(|(_, block)| change(&mut block.attention));
    }

    fn reorder(&mut self, intervention: &Intervention) {
        let Some(at) = intervention.block.map(|block| block as usize) else { return };
        match (intervention.fault, intervention.word()) {
            (Fault::LayerSkipped, _) => self.order[at] = Step::Nothing(at),
            (Fault::LayerDuplicated, "copied") => {
                let copied = self.blocks[at].clone();
                self.put(copied, at + 1);
            }
            (Fault::LayerDuplicated, _) => self.order.insert(at, Step::Unseen(at)),
            _ => {
                let other = intervention.number().map_or(at + 1, |other| other as usize);
                let (one, two) = (self.blocks[at].clone(), self.blocks[other].clone());
                self.put(two, at);
                self.put(one, other);
            }
        }
    }

    /// Puts a block's weights in another place; windows, RoPE and the scale of scores stay with the place.
    fn put(&mut self, mut block: Block, place: usize) {
        block.attention.layer = self.blocks[place].attention.layer;
        self.blocks[place] = block;
    }

    fn scale_scores(&mut self, intervention: &Intervention) {
        let here = |(index, _): &(usize, &mut Block)| intervention.acts_in(*index as u32);
        for (index, block) in self.blocks.iter_mut().enumerate().filter(here) {
            let scale = &mut block.attention.layer.score_scale;
            let depth = index as f64 + 1.0;
            match (intervention.number(), intervention.word()) {
                (Some(factor), _) => *scale *= factor,
                (None, "by_layer") => *scale /= depth,
                (None, "not_by_layer") => *scale *= depth,
                (None, _) => *scale = 1.0,
            }
        }
    }

    fn move_windows(&mut self, intervention: &Intervention) {
        let windows: Vec<Option<u32>> = self.blocks.iter().map(|block| block.attention.layer.window).collect();
        let width = windows.iter().flatten().next().copied();
        let count = windows.len();
        let bound = match intervention.value {
            Some(FaultValue::Named(_, bound)) => bound.clamp(0, count as i64) as usize,
            _ => 0,
        };
        let here = |(index, _): &(usize, &mut Block)| intervention.acts_in(*index as u32);
        for (index, block) in self.blocks.iter_mut().enumerate().filter(here) {
            block.attention.layer.window = match intervention.word() {
                "all" => width,
                "later" => windows[index.checked_sub(1).unwrap_or(count - 1)],
                "earlier" => windows[(index + 1) % count],
                "from" => width.filter(|_| index >= bound),
                "before" => width.filter(|_| index < bound),
                _ => width.filter(|_| windows[index].is_none()),
            };
        }
    }

    fn change_norms(&mut self, intervention: &Intervention) -> Result<()> {
        let word = intervention.word();
        let (which, plus_one) =
            word.strip_suffix("plus_one").map_or((word, false), |which| (which.trim_end_matches('_'), true));
        let change = move |norm: &mut Norm| match plus_one {
            true => norm.change_weight(|weight| weight + 1.0),
            false => norm.change_weight(Tensor::ones_like),
        };
        let concerns = |name: &str| which == name || matches!(which, "all" | "");
        if intervention.block.is_none() && concerns("final") {
            self.final_norm.iter_mut().try_for_each(change)?;
        }
        self.each_block(intervention, |block| {
            if which == "swapped" {
                block.attn_norm.exchange_weights(&mut block.mlp_norm);
            }
            if concerns("attn") || which == "both" {
                change(&mut block.attn_norm)?;
            }
            if concerns("mlp") || which == "both" { change(&mut block.mlp_norm) } else { Ok(()) }
        })
    }
}

impl Attention {
    /// Queries, keys or both are not normalised.
    fn without_norm_of(&mut self, which: &str) {
        if which != "k" {
            self.q_norm = None;
        }
        if which != "q" {
            self.k_norm = None;
        }
    }
}

impl Block {
    fn in_four_bits(&mut self, group: usize) -> Result<()> {
        let Attention { q, k, v, o, .. } = &mut self.attention;
        let linears = [q, k, v, o, &mut self.up, &mut self.down].into_iter().chain(&mut self.gate);
        for linear in linears {
            *linear = linear.changed(|weight| four_bits(&weight, group))?;
        }
        Ok(())
    }
}

/// Weights `[out, in]` rounded to −7 to 7 steps of a group of inputs, by its largest magnitude.
fn four_bits(weight: &Tensor, group: usize) -> Result<Tensor> {
    let (outputs, inputs) = weight.dims2()?;
    let mut values = weight.flatten_all()?.to_vec1::<f32>()?;
    for row in values.chunks_mut(inputs) {
        for group in row.chunks_mut(group) {
            let step = group.iter().fold(0.0_f32, |most, value| most.max(value.abs())) / 7.0;
            if step > 0.0 {
                group.iter_mut().for_each(|value| *value = (*value / step).round() * step);
            }
        }
    }
    Tensor::from_vec(values, (outputs, inputs), &Device::Cpu)
}

/// Where each of the logits comes from when `vocabulary` of them are joined as this fault does, `None` for padding or a missing
/// one.
#[must_use]
pub fn logits_from(intervention: &Intervention, vocabulary: usize) -> Vec<Option<u32>> {
    let (first, second, of) = intervention.shards();
    let (of, width) = (of as usize, vocabulary.div_ceil(of as usize));
    let shard = |index: usize| {
        let range = (index * width).min(vocabulary)..((index + 1) * width).min(vocabulary);
        range.map(|id| Some(id as u32))
    };
    match intervention.fault {
        Fault::VocabPadded => {
            let padding = std::iter::repeat_n(None, first as usize);
            (0..of).flat_map(|index| shard(index).chain(padding.clone())).collect()
        }
        Fault::HeadMissing => {
            (0..of).flat_map(|index| shard(index).map(move |id| id.filter(|_| index != first as usize))).collect()
        }
        _ => {
            let mut order: Vec<usize> = (0..of).collect();
            match intervention.value {
                Some(FaultValue::Order { order: other, of }) => {
                    order = other.iter().take(usize::from(of)).map(|shard| usize::from(*shard)).collect();
                }
                _ => order.swap(first as usize, second as usize),
            }
            order.into_iter().flat_map(shard).collect()
        }
    }
}

impl Activation {
    fn exchanged(self, word: &str) -> Self {
        match (word, self) {
            ("silu", _) => Self::Silu,
            ("gelu", _) => Self::GeluErf,
            ("gelu_tanh", _) => Self::GeluTanh,
            ("quick_gelu", _) => Self::GeluQuick,
            ("relu", _) => Self::Relu,
            (_, Self::GeluErf | Self::GeluTanh) => Self::GeluQuick,
            (_, Self::Silu | Self::GeluQuick | Self::Relu) => Self::GeluTanh,
        }
    }

    /// The word that `activation_exchanged` has for it.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Silu => "silu",
            Self::GeluErf => "gelu",
            Self::GeluTanh => "gelu_tanh",
            Self::GeluQuick => "quick_gelu",
            Self::Relu => "relu",
        }
    }
}

impl Norm {
    fn set_eps(&mut self, to: f64) {
        let (Self::Rms { eps, .. } | Self::Layer { eps, .. }) = self;
        *eps = to;
    }

    fn exchange_weights(&mut self, other: &mut Self) {
        let (Self::Rms { weight, .. } | Self::Layer { weight, .. }) = self;
        let (Self::Rms { weight: its, .. } | Self::Layer { weight: its, .. }) = other;
        std::mem::swap(weight, its);
    }

    fn change_weight(&mut self, change: impl Fn(&Tensor) -> Result<Tensor>) -> Result<()> {
        let (Self::Rms { weight, .. } | Self::Layer { weight, .. }) = self;
        *weight = change(weight)?;
        Ok(())
    }
}
