//! Logits and the tables beside the compiled model: RoPE, embeddings, tokenizer.

use crate::hef::quoted;

use super::{
    check::{Outcome, fail, not_applicable, pass, unknown},
    config::Role,
    model::{EMBEDDINGS, Loaded, Model, Part},
};

const NO_PREFILL: &str = "there is no prefill group";

impl Model<'_> {
    /// Rows of embeddings.bin, by its size and the width of the embedding input, and what is left over in bytes.
    pub(super) fn embedding_rows(&self) -> Option<(u64, u64)> {
        let width =
            self.prefill.as_ref()?.input(Role::Embeddings)?.features().checked_mul(2).filter(|width| *width > 0)?;
        let size = self.description.resource(EMBEDDINGS)?.size_bytes;
        Some((size / width, size % width))
    }
}

pub(super) fn outputs(model: &Model<'_>, vocabulary: Option<(u64, &str)>) -> Outcome {
    let Some(prefill) = &model.prefill else { return not_applicable(NO_PREFILL) };
    for part in model.parts() {
        if let Some(wrong) = wrong_shards(part) {
            return fail(wrong);
        }
    }
    let logits = prefill.logits();
    if let Some(tbt) = model.tbt.as_ref().filter(|tbt| tbt.logits() != logits) {
        return fail(format!("prefill gives {logits} logits, tbt {}", tbt.logits()));
    }
    let shards = prefill.group.outputs.len();
    let shape = format!("{shards} x [1, 1, {}] = {logits} logits", logits / shards.max(1) as u64);
    let hidden = prefill.input(Role::Embeddings).map(crate::hef::Stream::features);
    let table = model.embedding_rows().filter(|(_, left)| *left == 0).map(|(rows, _)| (rows, "rows of embeddings.bin"));
    let Some((expected, origin)) = vocabulary.or(table) else {
        return unknown(format!("{shape}; there is no vocabulary to compare with"));
    };
    match logits.cmp(&expected) {
        std::cmp::Ordering::Equal => pass(format!("{shape}, as many as {origin}")),
        std::cmp::Ordering::Less if hidden == Some(logits) => {
            fail(format!("{shape}: the width of the embedding, not {expected} ({origin}); lm_head is missing"))
        }
        std::cmp::Ordering::Less => fail(format!("{shape}, but there are {expected} {origin}")),
        std::cmp::Ordering::Greater => {
            unknown(format!("{shape}, more than the {expected} {origin}: ids from {expected} on must never be chosen"))
        }
    }
}

/// What is wrong with the outputs of a group: they must be equal shards of one row.
fn wrong_shards(part: &Part<'_>) -> Option<String> {
    let (role, outputs) = (part.role, &part.group.outputs);
    let Some(first) = outputs.first() else { return Some(format!("{role} has no output")) };
    for output in outputs {
        let (name, shape) = (quoted(&output.name), output.shape_text());
        if output.rows() != Some(1) {
            return Some(format!(
                "{role}: {name} is {shape}, expected one row: the host reads the last token's logits alone"
            ));
        }
        if output.features() != first.features() || output.data_bytes != first.data_bytes {
            return Some(format!(
                "{role}: {name} is {shape}, {} is {}: shards must be equal",
                quoted(&first.name),
                first.shape_text()
            ));
        }
    }
    None
}

/// Which signs a RoPE table has.
enum Signs {
    Positive,
    FirstHalfNegative,
    Other,
}

pub(super) fn theta(model: &Model<'_>) -> Outcome {
    let table = match &model.theta {
        Loaded::Missing => {
            return unknown(
                "there is no rope_theta_data.bin; HailoRT has a table of 128 values of base 1000000 for that case, and 5.2 may \
                 refuse the file instead",
            );
        }
        Loaded::Unusable(reason) => return fail(reason.clone()),
        Loaded::Read(table) => table,
    };
    let length = table.len();
    if let Some(value) = table.iter().find(|value| !value.is_finite()) {
        return fail(format!("it holds {value}"));
    }
    if length % 2 != 0 {
        return fail(format!("{length} values, expected an even number: two halves of a head"));
    }
    let (first, second) = table.split_at(length / 2);
    if let Some(at) = first.iter().zip(second).position(|(one, other)| one.abs().to_bits() != other.abs().to_bits()) {
        if table.chunks_exact(2).all(|pair| pair[0].abs().to_bits() == pair[1].abs().to_bits()) {
            return unknown(format!(
                "{length} values, each twice side by side: a table for adjacent pairs, whose contract is not known"
            ));
        }
        return fail(format!(
            "the two halves differ in size: value {at} is {}, value {} is {}",
            first[at],
            at + length / 2,
            second[at]
        ));
    }
    match signs(first, second) {
        Signs::Positive => pass(format!("{length} values, both halves positive: the graph negates half of sin itself")),
        Signs::FirstHalfNegative => {
            pass(format!("{length} values, first half negative: the host hands over sin with its sign"))
        }
        Signs::Other => unknown(format!(
            "{length} values of signs that neither known convention has (all positive, first half negative)"
        )),
    }
}

fn signs(first: &[f32], second: &[f32]) -> Signs {
    let none_below = |half: &[f32]| half.iter().all(|value| *value >= 0.0);
    match (none_below(first), first.iter().all(|value| *value <= 0.0), none_below(second)) {
        (true, _, true) => Signs::Positive,
        (false, true, true) => Signs::FirstHalfNegative,
        _ => Signs::Other,
    }
}

pub(super) fn embeddings_table(model: &Model<'_>) -> Outcome {
    let Some(resource) = model.description.resource(EMBEDDINGS) else {
        return not_applicable("there is no embeddings.bin");
    };
    let Some(prefill) = &model.prefill else { return not_applicable(NO_PREFILL) };
    let Some((rows, left)) = model.embedding_rows() else { return unknown("the embedding input was not found") };
    let size = resource.size_bytes;
    if left != 0 || rows == 0 {
        let width = prefill.input(Role::Embeddings).map_or(0, crate::hef::Stream::features);
        return fail(format!("{size} bytes are not a whole number of rows of {width} uint16 values"));
    }
    if resource.file_offset.is_none() {
        return fail("it is not inside the file");
    }
    if let Some(largest) = model.tokenizer.read().and_then(|facts| facts.vocabulary.largest_id).filter(|id| *id >= rows)
    {
        return fail(format!("{rows} rows, but tokenizer.json has id {largest}"));
    }
    let logits = prefill.logits();
    match rows == logits {
        true => pass(format!("{rows} rows, one a logit")),
        false => unknown(format!("{rows} rows, but {logits} logits")),
    }
}

pub(super) fn tokenizer(model: &Model<'_>) -> Outcome {
    let facts = match &model.tokenizer {
        Loaded::Missing => return not_applicable("there is no tokenizer.json"),
        Loaded::Unusable(reason) => return fail(reason.clone()),
        Loaded::Read(facts) => facts,
    };
    let entries = facts.vocabulary.entries;
    let Some(largest) = facts.vocabulary.largest_id else { return fail("it has no token") };
    let Some(prefill) = &model.prefill else { return not_applicable(NO_PREFILL) };
    let logits = prefill.logits();
    match largest < logits {
        true => pass(format!("{entries} entries, ids up to {largest}, {logits} logits")),
        false => fail(format!("{entries} entries, ids up to {largest}, but only {logits} logits")),
    }
}
