//! The compiled model against the checkpoint it is said to be made of.

use crate::hef::Stream;

use super::{
    check::{Outcome, fail, pass, unknown},
    config::Role,
    facts::CheckpointFacts,
    model::{Loaded, Model},
};

/// float32 powers of a base differ from exact ones by less than this, relatively; another base or scaling by far more.
const THETA_TOLERANCE: f64 = 1e-5;
/// `HailoRT`'s own table, for files without one.
const DEFAULT_BASE: f64 = 1e6;
const DEFAULT_LENGTH: usize = 128;

pub(super) fn shape(model: &Model<'_>, facts: &CheckpointFacts<'_>) -> Outcome {
    let embeddings = model.prefill.as_ref().and_then(|part| part.input(Role::Embeddings)).map(Stream::features);
    let parameters = &model.parameters;
    let table = model.embedding_rows().filter(|(_, left)| *left == 0).map(|(rows, _)| rows);
    let padded = table.filter(|rows| *rows > facts.vocabulary);
    let table = if padded.is_some() { Some(facts.vocabulary) } else { table };
    let sizes = [
        ("hidden size", embeddings, facts.hidden),
        ("query heads", Some(parameters.query_heads.value), facts.query_heads),
        ("key heads", Some(parameters.kv_heads.value), facts.kv_heads),
        ("head_dim", model.head_dim(), facts.head_dim),
        ("vocabulary (rows of embeddings.bin)", table, facts.vocabulary),
    ];
    let wrong = sizes.iter().find_map(|(what, found, expected)| {
        found.filter(|found| found != expected).map(|found| format!("{what}: {found}, the checkpoint's is {expected}"))
    });
    if let Some(wrong) = wrong {
        return fail(wrong);
    }
    let missing: Vec<_> = sizes.iter().filter(|(_, found, _)| found.is_none()).map(|(what, ..)| *what).collect();
    let told = sizes.iter().filter_map(|(what, found, _)| found.map(|found| format!("{what} {found}")));
    match (missing.is_empty(), padded) {
        (false, _) => unknown(format!("the file does not tell: {}", missing.join(", "))),
        (true, Some(rows)) => {
            let expected = facts.vocabulary;
            unknown(format!("embeddings.bin has {rows} rows, the checkpoint {expected}: padded, or another vocabulary"))
        }
        (true, None) => pass(told.collect::<Vec<_>>().join(", ")),
    }
}

pub(super) fn theta(model: &Model<'_>, facts: &CheckpointFacts<'_>) -> Outcome {
    let Some(rope) = &facts.rope else {
        return match model.theta {
            Loaded::Missing => unknown("the checkpoint has learned positions, and the file has no RoPE table"),
            Loaded::Unusable(_) | Loaded::Read(_) => {
                fail("the file has a RoPE table, but the checkpoint has learned positions")
            }
        };
    };
    let own;
    let (table, origin): (&[f32], _) = match &model.theta {
        Loaded::Read(table) => (table, "the table"),
        Loaded::Unusable(reason) => return fail(reason.clone()),
        Loaded::Missing => {
            own = default_table();
            (&own, "HailoRT's default table, for want of another,")
        }
    };
    let pairs = facts.head_dim as usize / 2;
    if table.len() != 2 * pairs {
        return fail(format!(
            "{origin} has {} values, the checkpoint's heads {} dimensions",
            table.len(),
            facts.head_dim
        ));
    }
    if rope.frequencies.len() != pairs {
        let rotated = 2 * rope.frequencies.len();
        return unknown(format!(
            "the checkpoint rotates {rotated} of {} dimensions of a head; how a table says so is not known",
            facts.head_dim
        ));
    }
    let (first, second) = table.split_at(pairs);
    for (at, expected) in rope.frequencies.iter().enumerate() {
        for found in [first[at], second[at]].map(|value| f64::from(value).abs()) {
            if (found - expected).abs() > THETA_TOLERANCE * expected || !found.is_finite() {
                let base =
                    base(table).map_or_else(String::new, |base| format!("; by its second value its base is {base:.1}"));
                return fail(format!("{origin} has {found:e} at pair {at}, the checkpoint {expected:e}{base}"));
            }
        }
    }
    let equal = format!("{pairs} frequencies equal to within {THETA_TOLERANCE:e}");
    if (rope.magnitude - 1.0).abs() > 1e-6 {
        return unknown(format!(
            "{equal}; the checkpoint also multiplies cos and sin by {}, which no host does: the graph must",
            rope.magnitude
        ));
    }
    if rope.depends_on_length {
        return unknown(format!(
            "{equal}; those of long sequences differ (dynamic scaling), and one table cannot hold them"
        ));
    }
    match model.theta {
        Loaded::Missing => unknown(format!("{origin} has {equal}; 5.2 may refuse the file instead")),
        Loaded::Unusable(_) | Loaded::Read(_) => pass(equal),
    }
}

fn default_table() -> Vec<f32> {
    let half = DEFAULT_LENGTH / 2;
    let value = |index: usize| DEFAULT_BASE.powf(-((index % half) as f64) / half as f64) as f32;
    (0..DEFAULT_LENGTH).map(|index| if index < half { -value(index) } else { value(index) }).collect()
}

/// The base of an unscaled table: value i is base^(−2i / length).
fn base(table: &[f32]) -> Option<f64> {
    let second = f64::from(*table.get(1)?).abs();
    (table.len() > 2 && second > 0.0).then(|| second.powf(-(table.len() as f64) / 2.0)).filter(|base| base.is_finite())
}

pub(super) fn tokenizer(model: &Model<'_>, facts: &CheckpointFacts<'_>) -> Outcome {
    let ours = match &model.tokenizer {
        Loaded::Missing => return unknown("the file has no tokenizer.json"),
        Loaded::Unusable(reason) => return fail(reason.clone()),
        Loaded::Read(ours) => ours,
    };
    let Some(theirs) = &facts.tokenizer else { return unknown("the checkpoint has no tokenizer.json") };
    if ours.sha256 == theirs.sha256 {
        return pass(format!("the same file, SHA-256 {}", &ours.sha256[..16]));
    }
    let (one, other) = (ours.vocabulary, theirs.vocabulary);
    match one == other {
        true => unknown(format!(
            "another file with the same {} entries and ids; whether its rules (normaliser, merges) are the same is not compared",
            one.entries
        )),
        false => fail(format!(
            "another vocabulary: {} entries with ids up to {}, the checkpoint's {} up to {}",
            one.entries,
            one.largest_id.unwrap_or_default(),
            other.entries,
            other.largest_id.unwrap_or_default()
        )),
    }
}

pub(super) fn bos(model: &Model<'_>, facts: &CheckpointFacts<'_>) -> Outcome {
    if model.config.read().is_none() {
        return unknown("without a hailo-config.json there is no chat template to look at");
    }
    let Some(expected) = facts.bos.expected else {
        return unknown("whether the checkpoint begins with BOS is not known");
    };
    let template = &model.parameters.chat_template;
    let token = facts.bos.token.as_deref().filter(|token| !token.is_empty());
    let mentions = template.contains("bos_token") || token.is_some_and(|token| template.contains(token));
    match (expected, mentions) {
        (true, true) => pass("the checkpoint begins with BOS, and the chat template writes it"),
        (true, false) if template.is_empty() => {
            fail("the checkpoint begins with BOS, but there is no chat template to write it")
        }
        (true, false) => fail("the checkpoint begins with BOS, but the chat template never writes it"),
        (false, false) => pass("the checkpoint begins without BOS, and the chat template writes none"),
        (false, true) => unknown("the checkpoint begins without BOS, but the chat template mentions it"),
    }
}
