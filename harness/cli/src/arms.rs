//! Making the arms and recording them.

use std::path::Path;

use fidelity_diagnose::Numerics;
use fidelity_emulator::{CalibrationSet, Distribution, Emulator, LayerNames, Plan, Recipe};
use fidelity_references::{Decoder, Reference};
use fidelity_trace::{
    FirstPosition, Intervention, Manifest, Recorded, Recording, Scope, Subject, Trace, TraceWriter, hex, record,
};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{
    args::ArmArgs, error::CliError, inputs::Inputs, interrupt, progress::Progress, reference_cache, resources,
    resources::Resource,
};

const DEFAULT_RECIPE: &str = "a16w8";

/// What is known of the arm before anything is computed.
pub(crate) struct ArmPlan {
    quantisation: Option<Quantisation>,
    faults: Vec<Intervention>,
    first: Option<FirstPosition>,
    request: ArmRequest,
}

struct Quantisation {
    recipe: Recipe,
    plan: Plan,
    calibration: CalibrationSet,
}

/// What an emulator is made of, with the text of every file: the same can be made of it on another machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ArmRequest {
    quantisation: Option<QuantisationRequest>,
    faults: Vec<String>,
    first_position: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct QuantisationRequest {
    recipe: Resource,
    layer_names: Option<Resource>,
    calibration: CalibrationRequest,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CalibrationRequest {
    origin: String,
    prompts: Vec<Vec<u32>>,
    #[serde(with = "DistributionName")]
    distribution: Distribution,
}

/// As `--calibration` says it.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case", remote = "fidelity_emulator::Distribution")]
enum DistributionName {
    Prompts,
    Uniform,
    Normal,
}

impl ArmPlan {
    pub(crate) fn make(asked: &ArmArgs, inputs: &Inputs) -> Result<Self, CliError> {
        let of_row = inputs.row.as_ref().and_then(|row| row.recipe.as_deref());
        let recipe = asked.recipe.as_deref().or(of_row).unwrap_or(DEFAULT_RECIPE);
        let faults: Vec<Intervention> = asked.fault.iter().map(|fault| fault.parse()).collect::<Result<_, _>>()?;
        check_faults(&faults, inputs)?;
        let quantisation = match recipe {
            "none" if asked.first_position.is_some() => return Err(CliError::FirstPositionWithoutRecipe),
            "none" => None,
            name => Some(QuantisationRequest::read(name, asked, inputs)?),
        };
        let first_position = asked.first_position.map(|way| way.name().to_owned());
        Self::of(ArmRequest { quantisation, faults: asked.fault.clone(), first_position }, inputs)
    }

    /// The arm of a request, which may come from another machine.
    pub(crate) fn of(request: ArmRequest, inputs: &Inputs) -> Result<Self, CliError> {
        let faults: Vec<Intervention> = request.faults.iter().map(|fault| fault.parse()).collect::<Result<_, _>>()?;
        check_faults(&faults, inputs)?;
        let first = request.first_position.as_deref().map(str::parse).transpose();
        let first = first.map_err(|expected| CliError::ShardArm { what: "first_position", reason: expected })?;
        let quantisation = request.quantisation.as_ref().map(|it| Quantisation::of(it, inputs)).transpose()?;
        if first.is_some() && quantisation.is_none() {
            return Err(CliError::FirstPositionWithoutRecipe);
        }
        Ok(Self { quantisation, faults, first, request })
    }

    /// What it was made of.
    pub(crate) fn request(&self) -> &ArmRequest {
        &self.request
    }

    /// What the recipe says of each site and weight; none for float32.
    pub(crate) fn quantised(&self) -> Option<&Plan> {
        self.quantisation.as_ref().map(|quantisation| &quantisation.plan)
    }

    /// The name of the recipe; none for float32.
    pub(crate) fn recipe(&self) -> Option<&str> {
        self.quantisation.as_ref().map(|quantisation| quantisation.recipe.name.as_str())
    }

    /// What the arm computes in; `emulator` is of the recipe.
    pub(crate) fn numerics<'a>(&'a self, emulator: Option<&'a Emulator>) -> Numerics<'a> {
        match (self.recipe(), emulator) {
            (None, _) => Numerics::Float32,
            (Some(recipe), Some(emulator)) => Numerics::Recipe(emulator, recipe),
            (Some(_), None) => Numerics::Unknown,
        }
    }

    /// The emulator, calibrated on `float32`.
    pub(crate) fn emulator(&self, inputs: &Inputs, float32: &Decoder) -> Result<Emulator, CliError> {
        Ok(self.without_faults(inputs, float32)?.with_faults(self.faults.clone())?)
    }

    /// The same as it is without faults.
    pub(crate) fn without_faults(&self, inputs: &Inputs, float32: &Decoder) -> Result<Emulator, CliError> {
        Ok(match &self.quantisation {
            None => Emulator::float32(&inputs.checkpoint)?,
            Some(Quantisation { recipe, plan, calibration }) => {
                Emulator::quantised(&inputs.checkpoint, recipe, plan, float32, calibration, self.first)?
            }
        })
    }
}

fn check_faults(faults: &[Intervention], inputs: &Inputs) -> Result<(), CliError> {
    let architecture = inputs.checkpoint.architecture();
    faults.iter().try_for_each(|fault| fault.check(architecture.blocks as u32))?;
    match faults.iter().find_map(|it| Some((it.fault, architecture.immune_to(it)?))) {
        Some((fault, why)) => Err(CliError::ImmuneToFault { fault: fault.name(), why }),
        None => Ok(()),
    }
}

impl QuantisationRequest {
    fn read(recipe: &str, asked: &ArmArgs, inputs: &Inputs) -> Result<Self, CliError> {
        let recipe = resources::recipe(recipe)?;
        let layer_names = asked.layer_names.as_ref().map(|file| -> Result<_, CliError> {
            let origin = file.display().to_string();
            Ok(Resource { name: String::new(), origin, text: resources::read(file)? })
        });
        let layer_names = layer_names.transpose()?;
        // A recipe that cannot be read is told before the prompts are.
        Recipe::parse(&recipe.text, &recipe.name, &recipe.origin)?;
        let CalibrationSet { origin, prompts, distribution } = inputs.calibration(asked.calibration.as_deref())?;
        Ok(Self { recipe, layer_names, calibration: CalibrationRequest { origin, prompts, distribution } })
    }
}

impl Quantisation {
    fn of(request: &QuantisationRequest, inputs: &Inputs) -> Result<Self, CliError> {
        let Resource { name, origin, text } = &request.recipe;
        let recipe = Recipe::parse(text, name, origin)?;
        let names = match &request.layer_names {
            Some(file) => LayerNames::parse(&file.text, &file.origin)?,
            None => LayerNames::default(),
        };
        let plan = recipe.plan(inputs.checkpoint.architecture(), &names)?;
        let CalibrationRequest { origin, prompts, distribution } = request.calibration.clone();
        inputs.check_calibration(&prompts)?;
        Ok(Self { recipe, plan, calibration: CalibrationSet { origin, prompts, distribution } })
    }
}

pub(crate) fn reference(inputs: &Inputs, noise: bool) -> Result<Reference, CliError> {
    let decoder = inputs.checkpoint.decoder(&|_, tensor| Ok(tensor))?;
    Ok(if noise { Reference::with_noise(decoder) } else { Reference::without_noise(decoder) })
}

/// A trace to be written.
pub(crate) struct Target<'a> {
    pub(crate) folder: &'a Path,
    pub(crate) resume: bool,
    pub(crate) scopes: &'a [Scope],
}

/// The reference's trace, computed or, when one of the same inputs is kept, taken from the cache. It feeds its own greedy ids,
/// or `continuations`.
pub(crate) fn record_reference(
    reference: &Reference,
    continuations: Option<&[Vec<u32>]>,
    inputs: &Inputs,
    target: &Target<'_>,
    progress: &Progress,
) -> Result<Trace, CliError> {
    let mut manifest = manifest(reference, inputs, target);
    if let Some(continuations) = continuations {
        manifest.other.insert("continuations_sha256".into(), Value::from(digest(continuations)));
    }
    let place = reference_cache::place(&manifest).filter(|_| inputs.cached);
    if let Some(kept) = place.as_deref().and_then(|place| reference_cache::restore(place, target.folder)) {
        progress.note(
            "reference taken from the cache: the same inputs were computed before (--no-cache computes them again)",
        );
        return Ok(kept);
    }
    let trace = record_subject(reference, manifest, continuations, inputs, target, progress)?;
    if let Some(place) = place {
        reference_cache::keep(&place, &trace, target.folder);
    }
    Ok(trace)
}

pub(crate) fn record_emulator(
    emulator: &Emulator,
    continuations: &[Vec<u32>],
    inputs: &Inputs,
    target: &Target<'_>,
    progress: &Progress,
) -> Result<Trace, CliError> {
    record_subject_fed(emulator, continuations, inputs, target, progress, |manifest| {
        manifest.deviations = emulator.deviations();
        manifest.logits_step = emulator.logits_step();
    })
}

/// Any arm that is fed the reference's ids; `complete` adds what is known of this one.
pub(crate) fn record_subject_fed(
    subject: &impl Subject,
    continuations: &[Vec<u32>],
    inputs: &Inputs,
    target: &Target<'_>,
    progress: &Progress,
    complete: impl FnOnce(&mut Manifest),
) -> Result<Trace, CliError> {
    let mut manifest = manifest(subject, inputs, target);
    complete(&mut manifest);
    manifest.other.insert("continuations_sha256".into(), Value::from(digest(continuations)));
    record_subject(subject, manifest, Some(continuations), inputs, target, progress)
}

pub(crate) fn digest(continuations: &[Vec<u32>]) -> String {
    hex(&Sha256::digest(json!(continuations).to_string()))
}

fn manifest(subject: &impl Subject, inputs: &Inputs, target: &Target<'_>) -> Manifest {
    let mut manifest = Manifest::new(subject.arm(), inputs.checkpoint.identity().clone());
    manifest.prompts.clone_from(&inputs.prompts);
    manifest.environment.insert("fidelity".into(), Value::from(env!("CARGO_PKG_VERSION")));
    let scopes: Vec<_> = target.scopes.iter().map(|scope| scope.name()).collect();
    let architecture = inputs.checkpoint.architecture();
    manifest.network = architecture.network();
    let mut settings = json!({
        "scopes": scopes,
        "taps": format!("{:?}", inputs.taps),
        "new_tokens": inputs.new_tokens,
        // Other files than config.json decide these too, and they are not in the checkpoint's identity.
        "eos": architecture.eos,
        "bos": architecture.bos,
        "output": format!("{:?}", architecture.output),
    });
    if let Some(keys) = inputs.keys {
        settings["keys"] = json!(keys);
    }
    manifest.other.insert("settings".into(), settings);
    manifest
}

fn record_subject(
    subject: &impl Subject,
    manifest: Manifest,
    continuations: Option<&[Vec<u32>]>,
    inputs: &Inputs,
    target: &Target<'_>,
    progress: &Progress,
) -> Result<Trace, CliError> {
    let writer = TraceWriter::open(target.folder, manifest, target.resume)?;
    let bar = progress.bar(&subject.arm().kind.to_string(), inputs.prompts.len());
    let recording = Recording {
        scopes: target.scopes,
        taps: &inputs.taps,
        new_tokens: inputs.new_tokens,
        continuations,
        on_prompt: &|done| bar.set_position(done as u64),
        stop: &interrupt::asked,
    };
    let recorded = record(subject, &recording, writer)?;
    bar.finish_and_clear();
    if recorded == Recorded::Stopped {
        return Err(interrupt::interrupted());
    }
    Ok(Trace::open(target.folder)?)
}

/// The ids the arm is fed, by prompt; empty where the reference failed.
pub(crate) fn continuations(reference: &Trace) -> Vec<Vec<u32>> {
    let prompts = reference.manifest().prompts.iter();
    prompts.map(|prompt| prompt.generated.as_ref().map_or_else(Vec::new, |generated| generated.ids.clone())).collect()
}
