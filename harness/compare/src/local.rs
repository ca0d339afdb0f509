//! How much error each block adds of its own.

use std::collections::BTreeMap;

use fidelity_trace::{BlockSite, ScopeTrace, Site, Tensor};

use crate::matching::{Pair, rows_by_position};

/// By block, the local error of each matched row:
///
/// ‖device_i − local_i‖ / ‖local_i − device_{i−1}‖
///
/// where device_i is the arm's residual stream after block i, device_{−1} its `embed`, and local_i what the reference's
/// block i makes of device_{i−1}. The denominator is what the block ought to add; a row where it is 0, or where a value is
/// not finite, has no local error.
pub(crate) fn local_errors(device: &ScopeTrace, local: &ScopeTrace, pairs: &[Pair]) -> BTreeMap<u32, Vec<f64>> {
    let local_rows = rows_by_position(local);
    let block_errors = |block: u32, local: &Tensor| -> Option<Vec<f64>> {
        let output = device.sites.get(&Site::Block(block, BlockSite::ResidPost))?;
        let input = device.sites.get(&input_of(block))?;
        if output.row_len() != local.row_len() || input.row_len() != local.row_len() {
            return None;
        }
        let errors = pairs.iter().filter_map(|pair| {
            let row = local_rows.get(&pair.position).filter(|row| row.token_id == pair.token_id)?;
            local_error(output.row(pair.device), local.row(row.index), input.row(pair.device))
        });
        Some(errors.collect())
    };
    let blocks = local.sites.iter().filter_map(|(site, tensor)| match site {
        Site::Block(block, BlockSite::ResidPost) => Some((*block, block_errors(*block, tensor)?)),
        Site::Embed | Site::Block(..) | Site::FinalNorm | Site::Logits | Site::Pooled => None,
    });
    blocks.collect()
}

fn input_of(block: u32) -> Site {
    block.checked_sub(1).map_or(Site::Embed, |before| Site::Block(before, BlockSite::ResidPost))
}

fn local_error(device: &[f32], local: &[f32], input: &[f32]) -> Option<f64> {
    let (mut error, mut addition) = (0.0, 0.0);
    for ((device, local), input) in device.iter().zip(local).zip(input) {
        let local = f64::from(*local);
        error += (f64::from(*device) - local).powi(2);
        addition += (local - f64::from(*input)).powi(2);
    }
    let defined = error.is_finite() && addition.is_finite() && addition > 0.0;
    defined.then(|| (error / addition).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        // The block ought to add (3, 4); the arm is off by (0, 1).
        assert_eq!(local_error(&[4.0, 6.0], &[4.0, 5.0], &[1.0, 1.0]), Some(0.2));
    }

    #[test]
    fn a_block_that_adds_nothing_or_a_nan_has_no_local_error() {
        assert_eq!(local_error(&[1.0], &[2.0], &[2.0]), None);
        assert_eq!(local_error(&[f32::NAN], &[2.0], &[1.0]), None);
        assert_eq!(local_error(&[1.0], &[2.0], &[f32::INFINITY]), None);
    }

    #[test]
    fn block_0_starts_from_embed() {
        assert_eq!(input_of(0), Site::Embed);
        assert_eq!(input_of(3), Site::Block(2, BlockSite::ResidPost));
    }
}
