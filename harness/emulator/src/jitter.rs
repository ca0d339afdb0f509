//! Another quantiser of the same grids: rounded by chance, with a small gain of its own in every channel.
//!
//! What is diagnosed with an emulator must not have been made by the same arithmetic, or the test would be circular.

use std::collections::BTreeMap;

use candle_core::{DType, Device, Result, Tensor};
use fidelity_references::{Chunk, Instrument, Part};
use fidelity_trace::{Scope, Site};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::{quantiser::SiteGrid, rotation::uniform};

/// Moves values by up to half a step before an instrument quantises them, so that they are rounded up or down by chance, and
/// multiplies each channel by 1 ± up to a step's share of the range.
pub(crate) struct Jittered<'a, 'b> {
    pub(crate) then: &'a mut dyn Instrument,
    pub(crate) grids: &'b BTreeMap<Site, SiteGrid>,
    pub(crate) seed: u64,
    pub(crate) calls: u64,
}

impl Jittered<'_, '_> {
    fn moved(&mut self, site: Site, tensor: &Tensor) -> Result<Tensor> {
        let Some(SiteGrid { grid, calibrated: (min, max) }) = self.grids.get(&site) else { return Ok(tensor.clone()) };
        let step = f64::from(grid.step);
        let share = step / f64::from(max - min).max(step);
        let channels = tensor.dims().last().copied().unwrap_or(1);
        let place = Site::all(u32::from(u16::MAX)).position(|other| other == site).unwrap_or(0) as u64;
        let drawn = |stream: u64, count: usize, width: f64| {
            let mut rng = ChaCha8Rng::seed_from_u64(self.seed);
            rng.set_stream(stream);
            (0..count).map(|_| (uniform(&mut rng) - 0.5) * width).collect::<Vec<f64>>()
        };
        let gains = drawn(2 * place, channels, 2.0 * share).into_iter().map(|gain| 1.0 + gain);
        let gains = Tensor::from_iter(gains, &Device::Cpu)?.to_dtype(tensor.dtype())?;
        self.calls += 1;
        let offsets = drawn(2 * self.calls + 1, tensor.elem_count(), step);
        let offsets = Tensor::from_vec(offsets, tensor.shape(), &Device::Cpu)?.to_dtype(DType::F32)?;
        tensor.broadcast_mul(&gains)? + offsets.to_dtype(tensor.dtype())?
    }
}

impl Instrument for Jittered<'_, '_> {
    fn at(&mut self, site: Site, part: Part, tensor: Tensor) -> Result<Tensor> {
        // Scores and patterns come prompt by prompt, and a pattern's zeros must stay.
        let tensor = if part == Part::All { self.moved(site, &tensor)? } else { tensor };
        self.then.at(site, part, tensor)
    }

    fn begin(&mut self, scope: Option<Scope>) {
        self.then.begin(scope);
    }

    fn feeding(&mut self, chunks: &[Chunk<'_>]) {
        self.then.feeding(chunks);
    }

    fn tapped(&self, site: Site, tensor: &Tensor) -> Result<Tensor> {
        self.then.tapped(site, tensor)
    }
}
