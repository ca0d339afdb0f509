//! The shape that a row of a site should have.

use fidelity_trace::{BlockSite, Site};

/// The sizes of a checkpoint, as plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelShape {
    /// Number of blocks.
    pub blocks: usize,
    /// Width of the residual stream.
    pub hidden: usize,
    /// Query heads.
    pub query_heads: usize,
    /// Key and value heads.
    pub kv_heads: usize,
    /// Width of a head.
    pub head_dim: usize,
    /// Width of the MLP.
    pub mlp: usize,
    /// Logits in a row.
    pub vocabulary: usize,
}

/// A row's shape; `None` where the number of keys decides.
type RowShape = [Option<usize>; 2];

impl ModelShape {
    /// Heads or 1, and values: `None` for a number of keys, which the prompts decide.
    pub(crate) fn row(&self, site: Site) -> RowShape {
        let flat = |width| [Some(1), Some(width)];
        match site {
            Site::Embed | Site::FinalNorm | Site::Pooled => flat(self.hidden),
            Site::Logits => flat(self.vocabulary),
            Site::Block(_, inner) => match inner {
                BlockSite::Q => [Some(self.query_heads), Some(self.head_dim)],
                BlockSite::K | BlockSite::V => [Some(self.kv_heads), Some(self.head_dim)],
                BlockSite::Scores | BlockSite::Pattern => [Some(self.query_heads), None],
                BlockSite::Z => flat(self.query_heads * self.head_dim),
                BlockSite::Gate | BlockSite::Up | BlockSite::Act => flat(self.mlp),
                BlockSite::AttnNorm
                | BlockSite::AttnOut
                | BlockSite::ResidMid
                | BlockSite::MlpNorm
                | BlockSite::MlpOut
                | BlockSite::ResidSum
                | BlockSite::ResidPost => flat(self.hidden),
            },
        }
    }
}

/// What a site's rows should be, and who says so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// Number of prompts in the file.
    pub(crate) prompts: Option<usize>,
    /// Number of rows.
    pub(crate) rows: Option<usize>,
    /// Heads, where rows have them.
    pub(crate) heads: Option<usize>,
    /// Values of a head, or keys.
    pub(crate) inner: Option<usize>,
    /// All values of a row.
    pub(crate) values: Option<usize>,
    /// `the checkpoint` or `the reference`.
    pub(crate) by: &'static str,
}

impl Expected {
    /// Takes over what the checkpoint says of a site.
    pub(crate) fn by_model(mut self, model: &ModelShape, site: Site) -> Self {
        let [heads, inner] = model.row(site);
        self.values = heads.zip(inner).map(|(heads, inner)| heads * inner);
        self.heads = heads.filter(|heads| *heads > 1);
        self.inner = inner.filter(|_| self.heads.is_some());
        self.by = "the checkpoint";
        self
    }

    /// Takes over what a row of the reference says.
    pub(crate) fn by_reference(mut self, row: &[usize]) -> Self {
        self.values = Some(row.iter().product());
        (self.heads, self.inner) = match row {
            [heads, inner] => (Some(*heads), Some(*inner)),
            _ => (self.heads, self.inner),
        };
        self.by = "the reference";
        self
    }
}
