//! Wider heads that compute the same: m times as many dimensions, new ones zero.
//!
//! RoPE's pair i of D/2 turns by θ^(−2i/D); in D' = m·D, pair m·i turns by θ^(−2mi/(mD)), the same. Dimension i goes to m·i, its
//! partner i + D/2 to m·i + D'/2. Scores are divided by √D' = √m·√D: q' = √m·q. A norm of queries or keys takes the mean over D'
//! with (D' − D) zeros: with q' = √m·q before it, √m·q/√(mean(q²) + ε)·w, which has the √m already; keys take w/√m.

use fidelity_references::RopeScaling;

use super::{
    Draft, ForgeError, Transformation, refused,
    tensors::{Part, Tensors, Values},
};

/// Heads of at most so many dimensions.
const WIDEST: usize = 1 << 14;

pub(super) struct HeadDim(pub(super) usize);

impl Transformation for HeadDim {
    fn apply(&self, mut draft: Draft) -> Result<Draft, ForgeError> {
        let times = self.0;
        let a = &mut draft.architecture;
        let (head_dim, qk_norm) = (a.head_dim, a.qk_norm);
        let Some(rope) = &mut a.rope else {
            return Err(refused(
                self,
                "its heads are its hidden size divided by their number; config.json cannot say another",
            ));
        };
        if times == 0 {
            return Err(refused(self, "give a whole number of times, from 1"));
        }
        let wide = head_dim.checked_mul(times).filter(|wide| *wide <= WIDEST);
        let Some(wide) = wide else {
            return Err(refused(self, format!("heads of {head_dim} dimensions would have more than {WIDEST}")));
        };
        let dims = rope.dims;
        let before = rope.frequencies();
        rope.dims *= times;
        let after = rope.frequencies();
        let same =
            |(pair, frequency): (usize, &f64)| (after[times * pair] - frequency).abs() <= f64::EPSILON * frequency;
        let grows = matches!(rope.scaling, RopeScaling::Dynamic { .. });
        if times > 1 && (grows || !before.iter().enumerate().all(same)) {
            return Err(refused(
                self,
                "its RoPE scaling depends on the number of dimensions, so that pairs would turn otherwise",
            ));
        }
        a.head_dim = wide;
        for layer in &mut a.layers {
            layer.score_scale = (wide as f64).powf(-0.5);
        }
        draft.set("head_dim", wide);
        let root = (times as f64).sqrt();
        draft.relation.copied &= times == 1;
        draft.tensors = Box::new(Wider { inner: draft.tensors, times, head_dim, dims, root, qk_norm });
        Ok(draft)
    }

    fn name(&self) -> String {
        format!("--head-dim {}x", self.0)
    }
}

struct Wider {
    inner: Box<dyn Tensors>,
    times: usize,
    /// Dimensions of a head before.
    head_dim: usize,
    /// Those that RoPE turned.
    dims: usize,
    root: f64,
    qk_norm: bool,
}

impl Wider {
    /// The old dimension that stands at a new one of a head, if one does. Only queries and keys are turned.
    fn old(&self, dimension: usize, turned: bool) -> Option<usize> {
        let Self { times, head_dim, dims, .. } = *self;
        if !turned {
            return Some(dimension).filter(|old| *old < head_dim);
        }
        let (half, wide) = (dims / 2, dims * times);
        if dimension >= wide {
            return Some(dimension - wide + dims).filter(|old| *old < head_dim);
        }
        let (side, place) = (dimension / (half * times), dimension % (half * times));
        place.is_multiple_of(times).then(|| side * half + place / times)
    }

    fn spread(&self, values: Values, turned: bool) -> Values {
        let wide = self.head_dim * self.times;
        let count = values.shape[0] * self.times;
        values.gathered(count, |row| Some(row / wide * self.head_dim + self.old(row % wide, turned)?))
    }
}

impl Tensors for Wider {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        let mut shapes = self.inner.shapes();
        for (name, shape) in &mut shapes {
            match Part::of(name) {
                Part::Q | Part::K | Part::V | Part::QNorm | Part::KNorm => shape[0] *= self.times,
                Part::O if shape.len() == 2 => shape[1] *= self.times,
                _ => {}
            }
        }
        shapes
    }

    fn read(&mut self, name: &str) -> Result<Values, ForgeError> {
        let values = self.inner.read(name)?;
        Ok(match Part::of(name) {
            Part::Q => self.spread(values, true).scaled(self.root),
            Part::K if self.qk_norm => self.spread(values, true).scaled(self.root),
            Part::K | Part::QNorm => self.spread(values, true),
            Part::KNorm => self.spread(values, true).scaled(self.root.recip()),
            Part::V => self.spread(values, false),
            Part::O if values.shape.len() == 2 => self.spread(values.transposed(), false).transposed(),
            _ => values,
        })
    }
}
