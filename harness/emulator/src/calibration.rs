//! Activation ranges: minimum and maximum of every site over the calibration prompts, in float32.

use std::collections::BTreeMap;

use candle_core::{Result, Tensor};
use fidelity_references::{Chunk, Decoder, Instrument, Part, Wiring};
use fidelity_trace::{Site, hex, in_parallel};
use sha2::{Digest, Sha256};

/// Minimum and maximum by site.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ranges(BTreeMap<Site, (f32, f32)>);

impl Ranges {
    /// The range of a site, if the calibration saw it.
    #[must_use]
    pub fn get(&self, site: Site) -> Option<(f32, f32)> {
        self.0.get(&site).copied()
    }

    /// SHA-256 over sites and ranges.
    #[must_use]
    pub fn sha256(&self) -> String {
        let mut hasher = Sha256::new();
        for (site, (min, max)) in &self.0 {
            hasher.update(format!("{site} {:08x} {:08x};", min.to_bits(), max.to_bits()));
        }
        hex(&hasher.finalize())
    }

    fn widen(&mut self, site: Site, min: f32, max: f32) {
        let range = self.0.entry(site).or_insert((min, max));
        *range = (range.0.min(min), range.1.max(max));
    }
}

impl Instrument for Ranges {
    fn at(&mut self, site: Site, _: Part, tensor: Tensor) -> Result<Tensor> {
        let flat = tensor.flatten_all()?;
        self.widen(site, flat.min(0)?.to_scalar()?, flat.max(0)?.to_scalar()?);
        Ok(tensor)
    }
}

/// Runs the prompts through the float32 decoder, `jobs` at a time. The result does not depend on the order.
///
/// # Errors
/// Out of memory.
pub fn calibrate(decoder: &Decoder, prompts: &[Vec<u32>], jobs: usize) -> Result<Ranges> {
    let seen = in_parallel(prompts.len(), jobs, |index| {
        let token_ids = prompts[index].as_slice();
        let mut seen = Ranges::default();
        let positions: Vec<u32> = (0..token_ids.len() as u32).collect();
        let visibility = decoder.architecture().visibility(token_ids.len());
        let chunk = Chunk { token_ids, positions: &positions, visibility };
        decoder.forward(&chunk, None, &Wiring::default(), &mut seen)?;
        Ok::<_, candle_core::Error>(seen)
    })?;
    let mut all = Ranges::default();
    seen.into_iter().flat_map(|ranges| ranges.0).for_each(|(site, (min, max))| all.widen(site, min, max));
    Ok(all)
}
