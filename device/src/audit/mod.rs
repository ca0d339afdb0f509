//! Audits a HEF: is the file whole, does it keep the contract of the host that feeds a language model, is it made of the
//! checkpoint it is said to be made of? Nothing is run; what cannot be told from the file is `unknown`, never `pass`.
//!
//! The contract is that of `HailoRT` 5.0 to 5.2 (<https://github.com/hailo-ai/hailort>, `hailort_server/genai/llm`).

mod caches;
mod check;
mod checkpoint;
pub(crate) mod config;
mod embeddings;
mod facts;
mod file;
pub(crate) mod inputs;
pub(crate) mod model;
mod report;
mod roles;
mod tables;

use std::io::{Read, Seek};

pub use check::{Check, CheckId, Part, State};
pub use facts::{BosFacts, CheckpointFacts, EmbeddingRows, RopeFacts, TokenizerFacts, Vocabulary};
pub use model::logit_shards;
pub use report::{Audit, FORMAT, VERSION};

use check::{Outcome, not_applicable, unknown};
use config::Role;
use model::{Model, Resources};

use crate::hef::{Hef, HefError};

/// Audits a file, against a checkpoint if one is given.
///
/// # Errors
/// The file cannot be read (it was readable as a HEF before).
pub fn audit<R: Read + Seek>(
    hef: &mut Hef<R>,
    mut checkpoint: Option<&mut CheckpointFacts<'_>>,
) -> Result<Audit, HefError> {
    let resources = Resources::read(hef)?;
    let (description, source) = hef.parts();
    let model = Model::of(description, resources);
    let mut embeddings = match &mut checkpoint {
        Some(facts) if !model.traits.is_empty() => Some(embeddings::compare(&model, facts, source)?),
        Some(_) | None => None,
    };
    let facts = checkpoint.as_deref();
    let checks = CheckId::ALL.iter().map(|id| {
        let Outcome { state, found } = match not_looked_at(*id, &model, facts) {
            Some(outcome) => outcome,
            None => outcome(*id, &model, facts, &mut embeddings),
        };
        Check { id: *id, part: id.part(), state, found, why: id.why() }
    });
    let checks = checks.collect();
    Ok(Audit::new(description.clone(), model.traits, facts.map(|facts| facts.name.clone()), checks))
}

/// Why a check has nothing to look at.
fn not_looked_at(id: CheckId, model: &Model<'_>, facts: Option<&CheckpointFacts<'_>>) -> Option<Outcome> {
    let language_model = !model.traits.is_empty();
    match (id.part(), facts) {
        (Part::Contract, _) if !language_model && !of_caches(id, model) => {
            Some(not_applicable("no trait of a language model"))
        }
        (Part::File | Part::Contract, _) => None,
        (Part::Checkpoint, None) => Some(not_applicable("no checkpoint was given")),
        // Asked for and not done is no pass.
        (Part::Checkpoint, Some(_)) if !language_model => {
            Some(unknown("no trait of a language model: nothing was compared"))
        }
        (Part::Checkpoint, Some(_)) => None,
    }
}

/// Any file with caches must keep some of their rules.
fn of_caches(id: CheckId, model: &Model<'_>) -> bool {
    let caches = model.description.groups.iter().any(|group| !group.cache_edges.is_empty());
    caches && matches!(id, CheckId::CachePairs | CheckId::CacheLayout | CheckId::CacheQuantisation)
}

fn outcome(
    id: CheckId,
    model: &Model<'_>,
    facts: Option<&CheckpointFacts<'_>>,
    embeddings: &mut Option<Outcome>,
) -> Outcome {
    let description = model.description;
    let checkpoint = |check: fn(&Model<'_>, &CheckpointFacts<'_>) -> Outcome| match facts {
        Some(facts) => check(model, facts),
        None => not_applicable("no checkpoint was given"),
    };
    match id {
        CheckId::FileLength => file::file_length(description),
        CheckId::FileChecksum => file::checksum(description, "whole"),
        CheckId::ProtoChecksum => file::checksum(description, "proto"),
        CheckId::CcwPointers => file::ccw_pointers(description),
        CheckId::ResourceRanges => file::resource_ranges(description),
        CheckId::ResourceHashes => file::resource_hashes(description),
        CheckId::Structure => file::structure(description),
        CheckId::Runtime => roles::runtime(model),
        CheckId::Target => roles::target(model),
        CheckId::Groups => roles::groups(model),
        CheckId::Resources => roles::resources(model),
        CheckId::Config => roles::config(model),
        CheckId::ConfigKeys => roles::config_keys(model),
        CheckId::InputNames => roles::input_names(model),
        CheckId::PrefillCount => inputs::prefill_count(model),
        CheckId::EmbeddingsInput => inputs::embeddings_input(model),
        CheckId::MaskInput => inputs::mask_input(model),
        CheckId::MaskCodes => inputs::mask_codes(model),
        CheckId::RopeQueryInputs => inputs::rope_inputs(model, [Role::QueryCos, Role::QuerySin]),
        CheckId::RopeKeyInputs => inputs::rope_inputs(model, [Role::KeyCos, Role::KeySin]),
        CheckId::RopeRange => inputs::rope_range(model),
        CheckId::Outputs => {
            tables::outputs(model, facts.map(|facts| (facts.vocabulary, "rows of the checkpoint's embedding")))
        }
        CheckId::Theta => tables::theta(model),
        CheckId::EmbeddingsTable => tables::embeddings_table(model),
        CheckId::Tokenizer => tables::tokenizer(model),
        CheckId::CachePairs => caches::cache_pairs(model),
        CheckId::CacheEntries => caches::cache_entries(model),
        CheckId::CacheLength => caches::cache_length(model),
        CheckId::CacheLayout => caches::cache_layout(model),
        CheckId::CacheQuantisation => caches::cache_quantisation(model),
        CheckId::CheckpointShape => checkpoint(checkpoint::shape),
        CheckId::CheckpointEmbeddings => embeddings.take().unwrap_or_else(|| not_applicable("no checkpoint was given")),
        CheckId::CheckpointTheta => checkpoint(checkpoint::theta),
        CheckId::CheckpointTokenizer => checkpoint(checkpoint::tokenizer),
        CheckId::CheckpointBos => checkpoint(checkpoint::bos),
    }
}
