//! What each block of the reference makes of another arm's own input to that block.

use candle_core::{Device, Result, Tensor};
use fidelity_trace::{BlockSite, Network, PromptTrace, Scope, ScopeTrace, Site};

use crate::{Decoder, reference::Untouched};

/// For scope `base`: `blocks.i.resid_post` of the reference's block i, fed the arm's own residual stream before block i.
/// Blocks whose input the arm did not hand over are left out; `None` when the arm has no complete `base` rows at all, which for
/// an encoder are those of all `tokens` tokens.
///
/// # Errors
/// Out of memory, or the arm's residual stream is of another width.
pub fn local_blocks(decoder: &Decoder, tokens: usize, arm: &PromptTrace) -> Result<Option<PromptTrace>> {
    let Some(base) = arm.scopes.get(&Scope::Base) else { return Ok(None) };
    // A block's output needs the keys of every earlier position, an encoder's those of every position.
    let whole = base.positions.iter().zip(0..).all(|(position, expected)| *position == expected);
    let enough = match decoder.architecture().network() {
        // Rows beyond the prompt have no counterpart, and their number is the arm's to choose.
        Network::Decoder => base.positions.len() <= tokens,
        Network::Encoder => base.positions.len() == tokens,
    };
    if !whole || !enough || base.positions.is_empty() {
        return Ok(None);
    }
    let mut local =
        ScopeTrace { positions: base.positions.clone(), token_ids: base.token_ids.clone(), ..ScopeTrace::default() };
    for index in 0..decoder.architecture().blocks {
        let before = match index {
            0 => Site::Embed,
            _ => Site::Block(index as u32 - 1, BlockSite::ResidPost),
        };
        let Some(input) = base.sites.get(&before) else { continue };
        if input.row_len() != decoder.architecture().hidden {
            continue;
        }
        let tensor = Tensor::from_slice(&input.values, (input.rows(), input.row_len()), &Device::Cpu)?;
        let output = decoder.block(index, tensor, &base.positions, &mut Untouched)?;
        let values = output.flatten_all()?.to_vec1::<f32>()?;
        let tensor = fidelity_trace::Tensor { shape: output.dims().to_vec(), values };
        local.sites.insert(Site::Block(index as u32, BlockSite::ResidPost), tensor);
    }
    Ok(Some(PromptTrace { scopes: [(Scope::Base, local)].into() }))
}
