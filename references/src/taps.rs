//! Taps: copying wanted sites into a capture, rows first.

use candle_core::{DType, Device, Result, Tensor};
use fidelity_trace::{BlockSite, Capture, Scope, Site};
use rayon::prelude::*;

use crate::{Chunk, Instrument, Layer, Part, decoder::Values};

/// Which keys the rows of a chunk see, and how wide their rows of scores are stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyLayout<'a> {
    pub(crate) chunk: Chunk<'a>,
    /// By block.
    pub(crate) layers: &'a [Layer],
    /// Position of the first key; keys are consecutive.
    pub(crate) first_key: u32,
    /// Keys a stored row has: the whole sequence, so that all rows of a scope have one shape.
    pub(crate) width: usize,
}

impl KeyLayout<'_> {
    /// A site's tensor with rows first; `scores` and `pattern` are stored 0 at keys that are not visible.
    pub(crate) fn rows_first(&self, site: Site, tensor: &Tensor) -> Result<Tensor> {
        let Site::Block(block, BlockSite::Scores | BlockSite::Pattern) = site else { return Ok(tensor.clone()) };
        let keys = tensor.dim(2)?;
        let visible = self.visible(self.layers[block as usize], keys)?.to_dtype(tensor.dtype())?;
        let first = self.first_key as usize;
        tensor.transpose(0, 1)?.broadcast_mul(&visible)?.pad_with_zeros(2, first, self.width - first - keys)
    }

    fn visible(&self, layer: Layer, keys: usize) -> Result<Tensor> {
        let Chunk { positions, visibility, .. } = self.chunk;
        let pairs =
            positions.iter().flat_map(|position| (0..keys as u32).map(move |key| (*position, self.first_key + key)));
        let seen = pairs.map(|(position, key)| f32::from(u8::from(visibility.sees(layer, position, key))));
        Tensor::from_vec(seen.collect::<Vec<_>>(), (positions.len(), 1, keys), &Device::Cpu)
    }
}

/// Copies wanted sites of chunks computed together, each into a capture of its own.
pub struct TapCollector<'a> {
    pub(crate) scope: Scope,
    pub(crate) chunks: Vec<TappedChunk<'a>>,
}

/// One of the chunks computed together, and where its tensors go.
pub(crate) struct TappedChunk<'a> {
    pub(crate) capture: &'a mut Capture,
    pub(crate) layout: KeyLayout<'a>,
}

impl TapCollector<'_> {
    /// Whether any capture keeps this site.
    pub(crate) fn wants(&self, site: Site) -> bool {
        self.chunks.iter().any(|chunk| chunk.capture.wants(site))
    }
}

impl Instrument for TapCollector<'_> {
    fn at(&mut self, site: Site, part: Part, tensor: Tensor) -> Result<Tensor> {
        if self.wants(site) {
            let starts: Vec<usize> = self
                .chunks
                .iter()
                .scan(0, |end, chunk| {
                    *end += chunk.layout.chunk.positions.len();
                    Some(*end - chunk.layout.chunk.positions.len())
                })
                .collect();
            let scope = self.scope;
            let chunks = self.chunks.par_iter_mut().zip(starts).enumerate();
            chunks.try_for_each(|(index, (chunk, start))| chunk.take(scope, site, part, &tensor, index, start))?;
        }
        Ok(tensor)
    }
}

impl TappedChunk<'_> {
    fn take(
        &mut self,
        scope: Scope,
        site: Site,
        part: Part,
        tensor: &Tensor,
        index: usize,
        start: usize,
    ) -> Result<()> {
        let Self { capture, layout } = self;
        let rows = layout.chunk.positions.len();
        let Some(own) = own_part(tensor, part, index, start, rows)?.filter(|_| capture.wants(site)) else {
            return Ok(());
        };
        let rows = layout.rows_first(site, &own)?.to_dtype(DType::F32)?.contiguous()?;
        capture.tensor(scope, site, rows.dims(), &Values::of(&rows)?);
        Ok(())
    }
}

/// What of a tensor belongs to chunk `index`, whose rows begin at `start`; nothing if it is another chunk's.
pub(crate) fn own_part(tensor: &Tensor, part: Part, index: usize, start: usize, rows: usize) -> Result<Option<Tensor>> {
    match part {
        Part::All => tensor.narrow(0, start, rows).map(Some),
        Part::Chunk(whose) => Ok((whose == index).then(|| tensor.clone())),
    }
}
