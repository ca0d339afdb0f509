//! An emulator of a recipe beside a device: whose an error is.

use fidelity_compare::attribute;
use fidelity_emulator::Emulator;
use fidelity_references::Reference;
use fidelity_trace::Trace;
use fidelity_verdict::Verdict;

use crate::{
    arms::{ArmPlan, Target, record_emulator},
    error::CliError,
    inputs::Inputs,
    judge::{Helpers, judge},
    progress::Progress,
};

/// What the emulator is run on.
pub(crate) struct Beside<'a> {
    pub(crate) inputs: &'a Inputs,
    pub(crate) reference: &'a Reference,
    /// The reference's trace.
    pub(crate) ours: &'a Trace,
    /// The device's.
    pub(crate) its: &'a Trace,
    /// The ids that both were fed.
    pub(crate) continuations: &'a [Vec<u32>],
    pub(crate) progress: &'a Progress,
}

impl Beside<'_> {
    /// Runs an emulator into `target`.
    pub(crate) fn record(&self, plan: &ArmPlan, target: &Target<'_>) -> Result<(Emulator, Trace), CliError> {
        self.progress.say("calibrating the emulator of the recipe");
        let emulator = plan.emulator(self.inputs, self.reference.decoder())?;
        let emulated = record_emulator(&emulator, self.continuations, self.inputs, target, self.progress)?;
        Ok((emulator, emulated))
    }

    /// Runs an emulator into `target` and splits the distance that `verdict` says.
    pub(crate) fn attribute(
        &self,
        plan: &ArmPlan,
        target: &Target<'_>,
        verdict: &mut Verdict,
    ) -> Result<Emulator, CliError> {
        let (emulator, emulated) = self.record(plan, target)?;
        self.progress.say("comparing three arms");
        let helpers = Helpers { scopes: Some(&self.inputs.scopes), jobs: self.inputs.jobs, ..Helpers::default() };
        let recipe = judge(self.ours, &emulated, &helpers)?;
        let implementation = judge(&emulated, self.its, &helpers)?;
        let attribution = attribute(verdict, &recipe, &implementation);
        verdict.notes.insert(0, format!("attribution: {}", attribution.sentence));
        let not_emulated = recipe.notes.into_iter().filter(|note| note.starts_with("not emulated: "));
        verdict.notes.extend(not_emulated.map(|note| format!("the emulator beside the device, {note}")));
        verdict.attribution = Some(attribution);
        Ok(emulator)
    }
}
