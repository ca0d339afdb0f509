//! What differs from block to block: windows, and blocks without RoPE.

use serde_json::{Value, json};

use super::{
    Architecture, Layer,
    family::{Family, WindowRule},
};
use crate::{CheckpointError, keys::Keys};

/// Mistral's window when the key is absent.
const MISTRAL_WINDOW: usize = 4096;

pub(super) fn take(keys: &mut Keys, family: &Family, a: &Architecture) -> Result<Vec<Layer>, CheckpointError> {
    let (blocks, score_scale) = (a.blocks, (a.head_dim as f64).powf(-0.5));
    let rope = match family.window {
        WindowRule::WithoutRope => with_rope(keys, blocks)?,
        WindowRule::Never | WindowRule::All | WindowRule::Upper => vec![true; blocks],
    };
    let windowed = match family.window {
        WindowRule::Never => {
            keys.only("sliding_window", &json!(false))?;
            return Ok(rope.into_iter().map(|rope| Layer { window: None, rope, score_scale }).collect());
        }
        WindowRule::All => {
            let absent = (!keys.holds("sliding_window")).then_some(MISTRAL_WINDOW);
            let window = keys.size("sliding_window")?.or(absent);
            (window, vec![true; blocks])
        }
        WindowRule::Upper | WindowRule::WithoutRope => by_layer_types(keys, family.window, &rope)?,
    };
    let (window, sliding) = windowed;
    let window = window.map(|window| window as u32);
    let layers = rope.into_iter().zip(sliding);
    Ok(layers.map(|(rope, slides)| Layer { window: window.filter(|_| slides), rope, score_scale }).collect())
}

/// `no_rope_layers`: despite its name, 1 means that RoPE is applied.
fn with_rope(keys: &mut Keys, blocks: usize) -> Result<Vec<bool>, CheckpointError> {
    let interval = keys.size("no_rope_layer_interval")?.unwrap_or(4);
    let Some(list) = keys.take("no_rope_layers") else {
        return Ok((1..=blocks).map(|count| count % interval != 0).collect());
    };
    let flags: Option<Vec<bool>> = list.as_array().and_then(|list| list.iter().map(flag).collect());
    match flags.filter(|flags| flags.len() >= blocks) {
        Some(flags) => Ok(flags.into_iter().take(blocks).collect()),
        None => Err(keys.wrong("no_rope_layers", Some(&list), format!("a list of {blocks} zeros and ones"))),
    }
}

fn flag(value: &Value) -> Option<bool> {
    match value.as_u64() {
        Some(0) => Some(false),
        Some(1) => Some(true),
        _ => value.as_bool(),
    }
}

/// The window and which blocks slide.
fn by_layer_types(
    keys: &mut Keys,
    rule: WindowRule,
    rope: &[bool],
) -> Result<(Option<usize>, Vec<bool>), CheckpointError> {
    let used = keys.boolean("use_sliding_window")?.unwrap_or(false);
    let absent = (!keys.holds("sliding_window") && rule == WindowRule::Upper).then_some(MISTRAL_WINDOW);
    let window = keys.size("sliding_window")?.or(absent).filter(|_| used);
    let first = if rule == WindowRule::Upper { first_windowed(keys)? } else { 0 };
    let sliding = match keys.take("layer_types") {
        Some(list) => named(keys, &list, rope.len())?,
        None if window.is_none() => vec![false; rope.len()],
        None if rule == WindowRule::Upper => (0..rope.len()).map(|index| index >= first).collect(),
        None => rope.iter().map(|rope| !rope).collect(),
    };
    if window.is_none() && sliding.contains(&true) {
        let expected = "a window, with use_sliding_window = true: layer_types names sliding_attention";
        return Err(keys.wrong("sliding_window", None, expected));
    }
    Ok((window, sliding))
}

/// `max_window_layers`; 0 is a valid value.
fn first_windowed(keys: &mut Keys) -> Result<usize, CheckpointError> {
    let Some(value) = keys.take("max_window_layers") else { return Ok(28) };
    match value.as_u64().and_then(|value| usize::try_from(value).ok()) {
        Some(first) => Ok(first),
        None => Err(keys.wrong("max_window_layers", Some(&value), "a whole number from 0")),
    }
}

fn named(keys: &Keys, list: &Value, blocks: usize) -> Result<Vec<bool>, CheckpointError> {
    let slides = |kind: &Value| match kind.as_str() {
        Some("full_attention") => Some(false),
        Some("sliding_attention") => Some(true),
        _ => None,
    };
    let kinds: Option<Vec<bool>> = list.as_array().and_then(|list| list.iter().map(slides).collect());
    kinds.filter(|kinds| kinds.len() == blocks).ok_or_else(|| {
        let expected = format!("{blocks} entries \"full_attention\" or \"sliding_attention\"");
        keys.wrong("layer_types", Some(list), expected)
    })
}
