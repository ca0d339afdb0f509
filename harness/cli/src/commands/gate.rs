//! `fidelity gate`: a run against its baseline.

use fidelity_compare::gate as hold;
use fidelity_reports::write_gate;

use crate::{
    args::GateArgs,
    commands::gate_recipes::gate_recipes,
    described::show_gate,
    error::CliError,
    gating::{StoredRun, baseline_for, settings},
    output::{Form, say_gate},
};

pub(crate) fn gate(args: &GateArgs) -> Result<u8, CliError> {
    let Some(run) = &args.run else { return gate_recipes(args) };
    let run = StoredRun::open(run)?;
    let baseline = baseline_for(&run, args.baseline.as_deref(), "baseline")?;
    let gate = hold(&baseline, &run.verdict, &run.versions, &settings(&args.margin), &args.allow)?;
    write_gate(&run.folder, &gate)?;
    show_gate(&run.folder, &run.verdict, &gate, None)?;
    say_gate(&gate, Form::of(args.json, args.quiet));
    Ok(gate.exit_code)
}
