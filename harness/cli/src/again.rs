//! The arm of a stored trace, run again for its diagnosis.

use fidelity_diagnose::Rerun;
use fidelity_emulator::Emulator;
use fidelity_references::Reference;
use fidelity_trace::Scope;

use crate::{
    args::{ArmArgs, PromptArgs},
    arms::ArmPlan,
    device::Device,
    error::CliError,
    hailo::Hailo,
    inputs::Inputs,
    progress::Progress,
};

/// How the arm is run again, and for how many steps at most.
pub(crate) struct Again {
    pub(crate) arm: ArmArgs,
    pub(crate) budget: usize,
}

/// An arm that is ready.
pub(crate) struct Opened {
    arm: Arm,
    budget: usize,
    max_positions: usize,
}

enum Arm {
    Emulator(Box<Emulator>),
    Hailo(Box<Hailo>),
}

impl Again {
    pub(crate) fn open(
        &self,
        inputs: &mut Inputs,
        asked: &PromptArgs,
        reference: &Reference,
        quiet: bool,
        progress: &Progress,
    ) -> Result<Opened, CliError> {
        let arm = match Device::asked(&self.arm)? {
            Device::Emulator => {
                let plan = ArmPlan::make(&self.arm, inputs)?;
                Arm::Emulator(Box::new(plan.emulator(inputs, reference.decoder())?))
            }
            Device::Hailo => Arm::Hailo(Box::new(Hailo::open(&self.arm.hailo, asked, inputs, quiet, progress)?)),
            Device::Replay(trace) => return Err(CliError::ProbeOfReplay { trace }),
        };
        Ok(Opened { arm, budget: self.budget, max_positions: inputs.checkpoint.architecture().max_positions })
    }
}

impl Opened {
    pub(crate) fn rerun(&self) -> Rerun<'_> {
        match &self.arm {
            Arm::Emulator(emulator) => Rerun {
                arm: &**emulator,
                scopes: &[Scope::Base, Scope::Prefill, Scope::Tbt, Scope::TbtSelf],
                prompt_tokens_a_step: usize::MAX,
                capacity: self.max_positions,
                budget: self.budget,
            },
            Arm::Hailo(hailo) => hailo.rerun(self.budget),
        }
    }
}
