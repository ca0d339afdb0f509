//! The six inputs: rows, widths, types and quantisation.

use crate::hef::{Quantisation, Stream, quoted};

use super::{
    check::{Outcome, fail, not_applicable, pass, unknown},
    config::Role,
    model::{Model, Part},
};

const NO_PREFILL: &str = "there is no prefill group";

/// The inputs of a role in all groups, or why they cannot be told.
fn each<'a>(model: &'a Model<'a>, role: Role) -> Result<Vec<(&'a Part<'a>, &'a Stream)>, Outcome> {
    let mut found = Vec::new();
    for part in model.parts() {
        match part.input(role) {
            Some(input) => found.push((part, input)),
            None => return Err(unknown(format!("{}: the input for {} was not found", part.role, role.key()))),
        }
    }
    if found.is_empty() { Err(not_applicable(NO_PREFILL)) } else { Ok(found) }
}

pub(super) fn prefill_count(model: &Model<'_>) -> Outcome {
    let Some(part) = &model.prefill else { return not_applicable(NO_PREFILL) };
    let Some(input) = part.input(Role::Embeddings) else { return unknown("the embedding input was not found") };
    let count = model.parameters.prefill_count;
    match input.rows() {
        Some(rows) if rows == count.value => pass(format!("{count}, and prefill is fed {rows} rows")),
        _ => fail(format!("{count}, but the embedding input of prefill is {}", input.shape_text())),
    }
}

pub(super) fn embeddings_input(model: &Model<'_>) -> Outcome {
    let inputs = match each(model, Role::Embeddings) {
        Ok(inputs) => inputs,
        Err(outcome) => return outcome,
    };
    for (part, input) in &inputs {
        if input.data_type != Some("UINT16") {
            let bytes = input.data_bytes;
            return fail(format!(
                "{}: {} has values of {bytes} bytes, expected uint16",
                part.role,
                quoted(&input.name)
            ));
        }
        if input.rows() != Some(model.rows(part)) {
            return fail(rows(model, part, input));
        }
    }
    let (_, first) = inputs[0];
    for (part, input) in &inputs[1..] {
        if input.features() != first.features() {
            let (width, other) = (input.features(), first.features());
            return fail(format!("{} takes embeddings of width {width}, prefill of width {other}", part.role));
        }
        match (&first.quantisation, &input.quantisation) {
            (Some(one), Some(other)) if !one.equals(other) => {
                return fail(format!(
                    "prefill reads codes with {}, {} with {}: one embeddings.bin cannot serve both",
                    told(one),
                    part.role,
                    told(other)
                ));
            }
            (None, None) | (Some(_), Some(_)) => {}
            (Some(_), None) | (None, Some(_)) => return unknown("only one group says how the codes are quantised"),
        }
    }
    let numbers = first.quantisation.as_ref().map_or_else(|| "no quantisation stated".into(), told);
    pass(format!("uint16, width {}, {numbers}", first.features()))
}

fn rows(model: &Model<'_>, part: &Part<'_>, input: &Stream) -> String {
    let (role, shape, expected) = (part.role, input.shape_text(), model.rows(part));
    format!("{role}: {} is {shape}, expected {expected} rows", quoted(&input.name))
}

/// Scale and zero point.
pub(super) fn told(quantisation: &Quantisation) -> String {
    format!("scale {}, zero point {}", quantisation.scale, quantisation.zero_point)
}

pub(super) fn mask_input(model: &Model<'_>) -> Outcome {
    let inputs = match each(model, Role::Mask) {
        Ok(inputs) => inputs,
        Err(outcome) => return outcome,
    };
    let (heads, cache) = (model.parameters.query_heads, model.parameters.kv_cache_size);
    let width = heads.value.saturating_mul(cache.value);
    for (part, input) in inputs {
        let (role, name, shape) = (part.role, quoted(&input.name), input.shape_text());
        if input.data_type != Some("UINT8") {
            return fail(format!("{role}: {name} has values of {} bytes, expected uint8", input.data_bytes));
        }
        if input.features() != width {
            return fail(format!("{role}: {name} is {shape}, expected width {width} ({heads}; {cache})"));
        }
        if input.rows() != Some(model.rows(part)) {
            return fail(rows(model, part, input));
        }
    }
    pass(format!("uint8, width {width} ({heads}; {cache})"))
}

pub(super) fn mask_codes(model: &Model<'_>) -> Outcome {
    let inputs = match each(model, Role::Mask) {
        Ok(inputs) => inputs,
        Err(outcome) => return outcome,
    };
    let mut told = Vec::new();
    for (part, input) in inputs {
        let role = part.role;
        let Some(numbers) = &input.quantisation else {
            return unknown(format!("{role}: the file does not say how the mask is quantised"));
        };
        let Some(code) = visible_code(numbers) else {
            return fail(format!("{role}: no code of 1.0 with {}, limits {:?}", self::told(numbers), numbers.limits));
        };
        let value = |code: f32| (code - numbers.zero_point) * numbers.scale;
        let (visible, hidden) = (value(code), value(0.0));
        if code < 0.5 {
            return fail(format!(
                "{role}: 1.0 becomes code 0 ({visible:.4}), which also hides a key: nothing is masked"
            ));
        }
        told.push(format!("{role}: visible = code {code:.0} ({visible:.4}), hidden = code 0 ({hidden:.4})"));
    }
    pass(told.join("; "))
}

/// The code of 1.0 as `HailoRT` computes it: clipped to the limits, divided, shifted, rounded half to even.
pub(crate) fn visible_code(numbers: &Quantisation) -> Option<f32> {
    let [low, high] = numbers.limits;
    if !(low.is_finite() && high.is_finite() && low <= high) {
        return None;
    }
    let code = (1.0_f32.clamp(low, high) / numbers.scale + numbers.zero_point).round_ties_even();
    code.is_finite().then(|| code.clamp(0.0, f32::from(u8::MAX)))
}

pub(super) fn rope_inputs(model: &Model<'_>, roles: [Role; 2]) -> Outcome {
    let queries = roles[0] == Role::QueryCos;
    let heads = if queries { model.parameters.query_heads } else { model.parameters.kv_heads };
    let mut widths = Vec::new();
    for role in roles {
        let inputs = match each(model, role) {
            Ok(inputs) => inputs,
            Err(outcome) => return outcome,
        };
        for (part, input) in inputs {
            if input.rows() != Some(model.rows(part)) {
                return fail(rows(model, part, input));
            }
            widths.push((part.role, input));
        }
    }
    let Some(head_dim) = model.head_dim() else {
        return unknown(format!(
            "width {}; without a RoPE table head_dim is not known ({heads})",
            widths.first().map_or(0, |(_, input)| input.features())
        ));
    };
    let width = heads.value.saturating_mul(head_dim);
    match widths.iter().find(|(_, input)| input.features() != width) {
        Some((role, input)) => fail(format!(
            "{role}: {} is {}, expected width {width} ({heads}; head_dim {head_dim} by the length of the RoPE table)",
            quoted(&input.name),
            input.shape_text()
        )),
        None => pass(format!("width {width} ({heads}; head_dim {head_dim})")),
    }
}

pub(super) fn rope_range(model: &Model<'_>) -> Outcome {
    let mut narrowest = f32::INFINITY;
    for role in [Role::QueryCos, Role::QuerySin, Role::KeyCos, Role::KeySin] {
        let inputs = match each(model, role) {
            Ok(inputs) => inputs,
            Err(outcome) => return outcome,
        };
        for (part, input) in inputs {
            let place = format!("{}: {}", part.role, quoted(&input.name));
            let Some(numbers) = &input.quantisation else {
                return unknown(format!("{place}: the file does not say how it is quantised"));
            };
            let largest = if input.data_bytes == 2 { f32::from(u16::MAX) } else { f32::from(u8::MAX) };
            let value = |code: f32| (code - numbers.zero_point) * numbers.scale;
            let [low, high] = numbers.limits;
            let (low, high) = (value(0.0).max(low), value(largest).min(high));
            // A step at either end is lost to rounding.
            let step = numbers.scale;
            let holds = low <= -1.0 + step && high >= 1.0 - step;
            if !holds {
                return fail(format!("{place} holds {low:.4} to {high:.4}, but cos and sin go from -1 to 1"));
            }
            narrowest = narrowest.min(high.min(-low));
        }
    }
    pass(format!("all hold -1 to 1 (the narrowest {narrowest:.4})"))
}
