//! Weights on their way from the files into a decoder.

use candle_core::{Result, Tensor};
use fidelity_trace::Site;

/// What a weight is for, which decides how a recipe quantises it. Weights are named by the site they write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightKind {
    /// Rows of token, position or token type embeddings, `[row, hidden]`.
    Embedding,
    /// The projection inside a block that writes this site, `[out, in]`.
    Linear(Site),
    /// The output head, `[vocabulary, hidden]`.
    Head,
    /// The scale of the norm that writes this site.
    Norm(Site),
    /// The bias of the projection or norm that writes this site.
    Bias(Site),
}

/// Sees every weight on its way from the files into a decoder. A norm comes before the projections that read what it writes.
pub trait WeightTransform {
    /// Returns the weight itself, or another one in its place.
    ///
    /// # Errors
    /// An error ends the loading.
    fn weight(&self, kind: WeightKind, tensor: Tensor) -> Result<Tensor>;

    /// Returns the bias of the projection that writes `site`, seen after its weight; `None` where there is none.
    ///
    /// # Errors
    /// An error ends the loading.
    fn bias(&self, site: Site, bias: Option<Tensor>) -> Result<Option<Tensor>> {
        bias.map(|bias| self.weight(WeightKind::Bias(site), bias)).transpose()
    }
}

/// A function of each weight alone.
pub(crate) struct EachWeight<'a>(pub(crate) &'a dyn Fn(WeightKind, Tensor) -> Result<Tensor>);

impl WeightTransform for EachWeight<'_> {
    fn weight(&self, kind: WeightKind, tensor: Tensor) -> Result<Tensor> {
        self.0(kind, tensor)
    }
}
