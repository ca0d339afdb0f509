//! `fidelity selftest`: the diagnosis tried on faults that are known.

use std::{fs, path::Path, time::Instant};

use fidelity_diagnose::{Bench, drawn_prompts, selftest};
use fidelity_emulator::{CalibrationSet, Distribution, Recipe};
use fidelity_references::Checkpoint;
use fidelity_reports::{duration, self_test_markdown, self_test_text};
use fidelity_verdict::{ExitCode, SelfTest};
use tempfile::TempDir;

use crate::{
    args::{SelftestArgs, Slice},
    error::CliError,
    inputs::tokenised,
    output::{Form, print},
    progress::Progress,
    resources,
};

/// The recipes that faults are injected under, beside none.
const RECIPES: [&str; 2] = ["a16w8", "a8w8"];
const PROMPTS: usize = 8;
const TOKENS: usize = 24;
const STEPS: usize = 8;
const CALIBRATION_PROMPTS: usize = 24;

pub(crate) fn run(args: &SelftestArgs) -> Result<u8, CliError> {
    let progress = Progress::new(args.quiet || args.json);
    let start = Instant::now();
    let recipes = RECIPES.map(|name| {
        let resource = resources::recipe(name)?;
        Ok::<_, CliError>(Recipe::parse(&resource.text, &resource.name, &resource.origin)?)
    });
    let recipes: Vec<Recipe> = recipes.into_iter().collect::<Result<_, _>>()?;
    let mut test = SelfTest { cases: Vec::new() };
    let mut number = 0;
    for patient in patients()? {
        progress.say(&format!("injecting faults into {}", patient.name));
        let [first, second] = &patient.calibration;
        let bench = Bench {
            name: &patient.name,
            checkpoint: &patient.checkpoint,
            prompts: &patient.prompts,
            steps: STEPS,
            calibration: [first, second],
            recipes: &recipes,
        };
        let mut wanted = || {
            number += 1;
            args.slice.is_none_or(|Slice { index, of }| number % of == index % of)
        };
        selftest(&bench, &mut wanted, &mut |case| test.cases.push(case))?;
    }
    if let Some(file) = &args.out {
        let command = format!("fidelity selftest --out {}", file.display());
        let command = args.slice.map_or(command.clone(), |slice| format!("{command} --slice {slice}"));
        resources::write(file, self_test_markdown(&test, &command))?;
    }
    let passes = test.passes();
    let conclusion = if passes { "the bars are reached" } else { "the bars are not reached" };
    let line = format!("selftest: {} cases, {conclusion} · {}\n", test.cases.len(), duration(start.elapsed()));
    print(&match Form::of(args.json, args.quiet) {
        Form::Json => serde_json::to_string(&test).unwrap_or_default() + "\n",
        Form::Line => line,
        Form::Tables => format!("{}\n{line}", self_test_text(&test)),
    });
    Ok(if passes { ExitCode::Pass } else { ExitCode::FidelityFailure }.code())
}

/// A checkpoint, what is fed to it and what its arms are calibrated on.
struct Patient {
    name: String,
    checkpoint: Checkpoint,
    prompts: Vec<Vec<u32>>,
    calibration: [CalibrationSet; 2],
    /// Weights are read when an arm is made.
    _folder: Option<TempDir>,
}

fn patients() -> Result<Vec<Patient>, CliError> {
    let demo = Checkpoint::demo()?;
    let texts = |set: &str| -> Result<Vec<Vec<u32>>, CliError> {
        let (_, prompts) = resources::prompts("--prompts", set)?;
        Ok(tokenised(&demo, None, &prompts)?.into_iter().map(|prompt| prompt.token_ids).collect())
    };
    let shortened = |mut ids: Vec<u32>| {
        ids.truncate(TOKENS);
        ids
    };
    let prompts = texts("demo")?.into_iter().take(PROMPTS).map(shortened).collect();
    let (mut even, mut odd) = (Vec::new(), Vec::new());
    for (index, ids) in texts("demo-calibration")?.into_iter().enumerate() {
        if index % 2 == 0 { even.push(ids) } else { odd.push(ids) }
    }
    let set = |prompts| CalibrationSet { origin: "selftest".into(), prompts, distribution: Distribution::Prompts };
    let mut patients = vec![Patient {
        name: "demo".into(),
        checkpoint: demo,
        prompts,
        calibration: [set(even), set(odd)],
        _folder: None,
    }];
    for (name, config, weights) in resources::TINY {
        let io = |action: &'static str, path: &Path| {
            let path = path.to_owned();
            move |source| CliError::Io { action, path, source }
        };
        let folder = tempfile::tempdir().map_err(io("create", &std::env::temp_dir()))?;
        for (file, bytes) in [("config.json", config), ("model.safetensors", weights)] {
            let path = folder.path().join(file);
            fs::write(&path, bytes).map_err(io("write", &path))?;
        }
        let checkpoint = Checkpoint::open(folder.path(), name)?;
        let vocabulary = checkpoint.architecture().vocabulary;
        let drawn = |seed, count| drawn_prompts(seed, vocabulary, count, TOKENS);
        let sets = [1, 2].map(|seed| set(drawn(seed, CALIBRATION_PROMPTS)));
        let prompts = drawn(3, PROMPTS);
        patients.push(Patient { name: name.into(), checkpoint, prompts, calibration: sets, _folder: Some(folder) });
    }
    Ok(patients)
}
