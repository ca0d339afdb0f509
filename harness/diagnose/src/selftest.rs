//! The diagnosis tested on faults that are known.
//!
//! The arm in which a fault is injected is not the one that predicts: other calibration prompts, another rounding, a gain in
//! every channel (`Emulator::jittered`); every other case is diagnosed without the recipe.

use std::collections::{BTreeMap, btree_map::Entry};

use fidelity_emulator::{CalibrationSet, Emulator, EmulatorError, LayerNames, Recipe};
use fidelity_references::Checkpoint;
use fidelity_trace::{
    BlockSite, BosConvention, Capture, Fault, FaultValue, Intervention, Places, Request, Scope, Subject, Taps,
};
use fidelity_verdict::{CLEAN, SelfTestCase};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    DiagnoseError,
    search::{ArmPrompt, Numerics, Question, Rows, apart, explain_rows, rows_of},
};

/// Seeds of clean runs, for each checkpoint and precision.
const CLEAN_RUNS: u64 = 4;
/// Ids below this are not drawn.
const SPECIAL_IDS: usize = 3;
/// Below this float32 differs from itself.
const FLOAT_NOISE: f64 = 1e-5;

/// A checkpoint with what its arms are made of.
pub struct Bench<'a> {
    /// Its name.
    pub name: &'a str,
    /// The checkpoint.
    pub checkpoint: &'a Checkpoint,
    /// The prompts.
    pub prompts: &'a [Vec<u32>],
    /// How many steps follow each.
    pub steps: usize,
    /// What the predicting arm is calibrated on, and the other.
    pub calibration: [&'a CalibrationSet; 2],
    /// The recipes, each with its arms; the float32 arm comes first by itself.
    pub recipes: &'a [Recipe],
}

/// Prompts of ids drawn from a seed, for a checkpoint without a tokenizer. The lowest ids, which are often special, are left out.
#[must_use]
pub fn drawn_prompts(seed: u64, vocabulary: usize, count: usize, length: usize) -> Vec<Vec<u32>> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let first = SPECIAL_IDS.min(vocabulary.saturating_sub(1)) as u32;
    let width = (vocabulary as u32 - first).max(1);
    (0..count).map(|_| (0..length).map(|_| first + random.next_u32() % width).collect()).collect()
}

/// A case to be made.
struct Case {
    injected: Option<Intervention>,
    truth: String,
    seed: u64,
}

/// Runs the cases of a checkpoint, those that `wanted` takes by their number, and hands each over.
///
/// # Errors
/// An arm cannot be made, or memory runs out.
pub fn selftest(
    bench: &Bench<'_>,
    wanted: &mut dyn FnMut() -> bool,
    on_case: &mut dyn FnMut(SelfTestCase),
) -> Result<(), DiagnoseError> {
    let float32 = Emulator::float32(bench.checkpoint)?;
    let steps = steps(bench, &float32)?;
    let reference = rows(bench, &steps, &float32)?;
    let cases = cases(bench.checkpoint);
    run_precision(bench, "float32", None, &float32, &float32, (&steps, &reference), &cases, wanted, on_case)?;
    for recipe in bench.recipes {
        let plan = recipe
            .plan(bench.checkpoint.architecture(), &LayerNames::default())
            .map_err(|error| DiagnoseError::Compute(error.to_string()))?;
        let arm = |set: &CalibrationSet| -> Result<Emulator, EmulatorError> {
            Emulator::quantised(bench.checkpoint, recipe, &plan, float32.decoder(), set, None)
        };
        let (predicting, injecting) = (arm(bench.calibration[0])?, arm(bench.calibration[1])?);
        let with = Some((&predicting, recipe.name.as_str()));
        let of_reference = (steps.as_slice(), &reference);
        run_precision(bench, &recipe.name, with, &float32, &injecting, of_reference, &cases, wanted, on_case)?;
    }
    Ok(())
}

#[allow(clippy::too_many_arguments)]
fn run_precision(
    bench: &Bench<'_>,
    precision: &str,
    predicting: Option<(&Emulator, &str)>,
    float32: &Emulator,
    injecting: &Emulator,
    (steps, reference): (&[Vec<u32>], &BTreeMap<usize, Rows>),
    cases: &[Case],
    wanted: &mut dyn FnMut() -> bool,
    on_case: &mut dyn FnMut(SelfTestCase),
) -> Result<(), DiagnoseError> {
    let mut clean: BTreeMap<u64, BTreeMap<usize, Rows>> = BTreeMap::new();
    for (number, case) in cases.iter().enumerate() {
        if !wanted() {
            continue;
        }
        let faulty = injecting.with_faults(case.injected.into_iter().collect())?;
        let arm = if predicting.is_some() { faulty.jittered(case.seed) } else { faulty };
        let computed = rows(bench, steps, &arm)?;
        let without = match clean.entry(case.seed) {
            Entry::Occupied(made) => made.into_mut(),
            Entry::Vacant(place) => {
                let arm = injecting.with_faults(Vec::new())?;
                let arm = if predicting.is_some() { arm.jittered(case.seed) } else { arm };
                place.insert(rows(bench, steps, &arm)?)
            }
        };
        let prompts: Vec<ArmPrompt> = computed
            .iter()
            .map(|(prompt, logits)| ArmPrompt {
                id: format!("p{prompt:04}"),
                text: None,
                token_ids: bench.prompts[*prompt].clone(),
                steps: steps[*prompt].clone(),
                logits: logits.clone(),
            })
            .collect();
        let with_recipe = number % 2 == 0;
        let question = Question {
            float32,
            numerics: match predicting {
                _ if !with_recipe => Numerics::Unknown,
                Some((emulator, recipe)) => Numerics::Recipe(emulator, recipe),
                None => Numerics::Float32,
            },
            checkpoint: bench.checkpoint,
            right_ids: &BTreeMap::new(),
            bos: BosConvention::Tokenizer,
            first_bad_site: None,
        };
        let found = explain_rows(&question, &prompts, &|_| {})?;
        let equivalent = found.equivalent.iter().filter_map(|fault| fault.split(['@', '=']).next());
        on_case(SelfTestCase {
            checkpoint: bench.name.to_owned(),
            precision: precision.to_owned(),
            with_recipe,
            injected: case.injected.map_or_else(String::new, |fault| fault.to_string()),
            truth: case.truth.clone(),
            effect: apart(without, &computed).sqrt(),
            noise: apart(reference, without).sqrt().max(FLOAT_NOISE),
            as_fault: found.as_fault(),
            equivalent: equivalent.map(ToOwned::to_owned).collect(),
            named: found.name,
            passes: found.passes,
        });
    }
    Ok(())
}

/// Every fault that the checkpoint can have, in every block and in one, those that are equivalent to none, and clean runs.
fn cases(checkpoint: &Checkpoint) -> Vec<Case> {
    let a = checkpoint.architecture();
    let middle = a.blocks as u32 / 2;
    let value = |fault: Fault| match fault {
        Fault::NormEps => Some(FaultValue::Number(3e-2)),
        Fault::ActivationClipped => Some(FaultValue::Clip { site: BlockSite::V, limit: 0.3 }),
        Fault::RopeTheta | Fault::RopeTablesDiffer => Some(FaultValue::Number(5e5)),
        Fault::RopeMagnitude if a.rope.as_ref().is_some_and(|rope| (rope.magnitude() - 1.0).abs() < 1e-9) => {
            Some(FaultValue::Number(1.3))
        }
        Fault::PositionShift => Some(FaultValue::Number(2.0)),
        Fault::Overflow => Some(FaultValue::Number(4.0)),
        Fault::Int4Group => Some(FaultValue::Number(32.0)),
        Fault::KvTruncated => Some(FaultValue::Number(8.0)),
        _ => None,
    };
    let last = Some(a.blocks as u32 - 1);
    let places = |fault: Fault| match fault.places() {
        // Before the last block what is not finite spreads to every row, and nothing is left to tell faults apart.
        _ if matches!(fault, Fault::Overflow | Fault::MaskedRowNan) => vec![last],
        Places::Whole => vec![None],
        Places::Blocks if a.blocks > 1 => vec![None, Some(middle)],
        Places::Blocks => vec![None],
        Places::OneBlock => vec![Some(middle.saturating_sub(1))],
    };
    let all = Fault::ALL.into_iter().flat_map(|fault| {
        places(fault).into_iter().map(move |block| Intervention { fault, block, value: value(fault) })
    });
    let faults = all.filter(|it| a.immune_to(it).is_none() && it.check(a.blocks as u32).is_ok());
    let mut cases: Vec<Case> =
        faults.map(|it| Case { truth: it.fault.name().to_owned(), injected: Some(it), seed: 1 }).collect();
    // What comes to nothing is injected all the same.
    let nothing = [
        Intervention { value: Some(FaultValue::Named("uniform", 3)), ..Fault::PositionShift.into() },
        Intervention { value: Some(FaultValue::Word("k")), ..Fault::AttentionBiasDropped.into() },
    ];
    let nothing = nothing.into_iter().filter(|it| a.immune_to(it).is_some());
    cases.extend(nothing.map(|it| Case { truth: CLEAN.to_owned(), injected: Some(it), seed: 2 }));
    cases.extend((3..3 + CLEAN_RUNS).map(|seed| Case { truth: CLEAN.to_owned(), injected: None, seed }));
    cases
}

/// The ids that the float32 arm chooses after each prompt.
fn steps(bench: &Bench<'_>, float32: &Emulator) -> Result<Vec<Vec<u32>>, DiagnoseError> {
    let mut ids = Vec::new();
    for prompts in bench.prompts.chunks(float32.together()) {
        let requests: Vec<Request<'_>> = prompts
            .iter()
            .map(|token_ids| Request {
                token_ids,
                scopes: &[Scope::Prefill, Scope::TbtFree],
                continuation: None,
                new_tokens: bench.steps,
            })
            .collect();
        let mut captures: Vec<Capture> = prompts.iter().map(|_| Capture::new(Taps::List(Vec::new()))).collect();
        float32.run(&requests, &mut captures)?;
        ids.extend(captures.into_iter().map(|capture| capture.generated.unwrap_or_default()));
    }
    Ok(ids)
}

/// Logits of prompts and steps, by prompt; computed together as a run does.
fn rows(bench: &Bench<'_>, steps: &[Vec<u32>], arm: &Emulator) -> Result<BTreeMap<usize, Rows>, DiagnoseError> {
    let continuations: Vec<Vec<u32>> = steps.iter().map(|steps| [steps.as_slice(), &[0]].concat()).collect();
    let requests: Vec<Request<'_>> = bench
        .prompts
        .iter()
        .zip(&continuations)
        .map(|(token_ids, continuation)| Request {
            token_ids,
            scopes: &[Scope::Prefill, Scope::Tbt],
            continuation: Some(continuation),
            new_tokens: continuation.len(),
        })
        .collect();
    let mut captures: Vec<Capture> = requests.iter().map(|_| Capture::new(Taps::List(Vec::new()))).collect();
    let together = arm.together();
    for (requests, captures) in requests.chunks(together).zip(captures.chunks_mut(together)) {
        arm.run(requests, captures)?;
    }
    let prompts = captures.into_iter().zip(bench.prompts).enumerate();
    Ok(prompts.map(|(index, (capture, token_ids))| (index, rows_of(capture, token_ids.len()))).collect())
}
