//! Which faults an architecture cannot have, and which change nothing in it.

use fidelity_trace::{Fault, Intervention, Network};

use super::{Architecture, MlpKind, RopeScaling};

/// Without RoPE a bias of keys adds one constant to a row of scores, which softmax takes off again.
const SOFTMAX_TAKES_IT_OFF: &str = "without RoPE, softmax takes a bias of keys off again";

impl Architecture {
    /// Why a fault would change nothing in this architecture, if it would not: such a fault is refused, not injected, and never
    /// a diagnosis.
    #[must_use]
    pub fn immune_to(&self, intervention: &Intervention) -> Option<&'static str> {
        let encoder = self.network() == Network::Encoder;
        let word = intervention.word();
        match intervention.fault {
            Fault::GqaTile if self.kv_heads == 1 || self.kv_heads == self.query_heads => {
                Some("it has as many kv heads as query heads, or one: tile and repeat are the same")
            }
            Fault::SoftmaxAcrossHeads | Fault::MaskRepeated if self.query_heads == 1 => Some("it has one head"),
            Fault::MaskRepeated | Fault::MaskMissing if encoder => {
                Some("it is an encoder: every position sees every other, and prompts are fed without padding")
            }
            Fault::RopeMissing
            | Fault::RopeSign
            | Fault::RopeInterleaved
            | Fault::RopeTwice
            | Fault::RopeTheta
            | Fault::RopeScalingIgnored
            | Fault::RopeMagnitude
            | Fault::RopeTableTiledTwice
            | Fault::RopeTableLowPrecision
            | Fault::RopeTablesDiffer => self.rope_immune_to(intervention),
            Fault::WindowIgnored | Fault::WindowOffByOne | Fault::WindowWrongLayers => {
                self.windows_immune_to(intervention)
            }
            Fault::AttentionBiasDropped => self.biases_immune_to(word),
            Fault::MlpBiasDropped if !self.biases.mlp => Some("its MLP has no biases"),
            Fault::MlpBiasDropped if word == "gate" && self.mlp_kind == MlpKind::Plain => Some("its MLP has no gate"),
            Fault::QkNormMissing if !self.qk_norm => Some("it does not normalise queries and keys"),
            Fault::HeadTied if encoder => Some("it has no head"),
            Fault::HeadTied if self.tied_head => Some("its head is the embedding"),
            Fault::HeadMissing | Fault::ShardsSwapped | Fault::VocabPadded if encoder => Some("it has no logits"),
            Fault::NormEps if intervention.number().is_none_or(|eps| same(eps, self.norm_eps)) => {
                Some("it has that epsilon; give another as the value")
            }
            Fault::ActivationExchanged if word == self.activation.word() => Some("that is its activation"),
            Fault::BosDoubled if self.bos.is_none() => Some("it has no BOS"),
            Fault::PositionShift if word == "uniform" && self.rope.is_some() => {
                Some("it has a rotary embedding, which a uniform shift of positions does not change")
            }
            Fault::PositionShift if self.rope.is_some() => self.rope_immune_to(intervention),
            Fault::KvLayout if self.kv_heads == 1 && !word.ends_with("by_channel") => {
                Some("it has one kv head: both layouts are the same")
            }
            Fault::MaskOffsetLost
            | Fault::PositionShift
            | Fault::KvLayout
            | Fault::KvOffset
            | Fault::KvRotated
            | Fault::KvStale
            | Fault::KvHistoryLost
            | Fault::KvTruncated
                if encoder =>
            {
                Some("it is an encoder and has no KV-cache")
            }
            _ => None,
        }
    }

    fn rope_immune_to(&self, intervention: &Intervention) -> Option<&'static str> {
        let rotates = |block: usize| self.layers[block].rope;
        let blocks = 0..self.layers.len();
        let rotated = blocks.filter(|block| intervention.acts_in(*block as u32)).any(rotates);
        let Some(rope) = self.rope.as_ref().filter(|_| rotated) else {
            return Some("it has no rotary embedding there");
        };
        let plain = rope.scaling == RopeScaling::None;
        let theta = intervention.number().unwrap_or(10_000.0);
        match intervention.fault {
            Fault::RopeScalingIgnored if plain => Some("its rotary embedding is not scaled"),
            Fault::RopeTheta if same(theta, rope.theta) => Some("it has that base; give another as the value"),
            Fault::RopeTablesDiffer if same(theta, rope.theta) && (plain || intervention.number().is_some()) => {
                Some("it has that base; give another as the value")
            }
            Fault::RopeMagnitude if same(intervention.number().unwrap_or(1.0 / rope.magnitude()), 1.0) => {
                Some("its cos and sin are not multiplied; give a factor as the value")
            }
            Fault::RopeTableTiledTwice if self.query_heads == 1 => Some("it has one head"),
            Fault::RopeTableTiledTwice if self.kv_heads == 1 && intervention.word() == "keys" => {
                Some("it has one kv head")
            }
            _ => None,
        }
    }

    fn windows_immune_to(&self, intervention: &Intervention) -> Option<&'static str> {
        let windowed = |layer: &super::Layer| layer.window.is_some();
        let blocks = self.layers.iter().enumerate();
        // A block without a window can get that of another.
        let moved = intervention.fault == Fault::WindowWrongLayers;
        let here =
            blocks.filter(|(block, _)| moved || intervention.acts_in(*block as u32)).any(|(_, layer)| windowed(layer));
        if !here {
            return Some("it has no sliding window there");
        }
        let everywhere = self.layers.iter().all(windowed);
        match (intervention.fault, intervention.word()) {
            (Fault::WindowWrongLayers, "all" | "later" | "earlier") if everywhere && intervention.block.is_none() => {
                Some("every block has the window already")
            }
            _ => None,
        }
    }

    fn biases_immune_to(&self, word: &str) -> Option<&'static str> {
        let concerns = |of_qkv: bool, of_o: bool| of_qkv && self.biases.qkv || of_o && self.biases.o;
        let (of_qkv, of_o) = (word != "o", matches!(word, "all" | "o"));
        match word {
            _ if !concerns(of_qkv, of_o) => Some("it has no such biases"),
            "k" if self.rope.is_none() && !self.qk_norm => Some(SOFTMAX_TAKES_IT_OFF),
            _ => None,
        }
    }
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}
