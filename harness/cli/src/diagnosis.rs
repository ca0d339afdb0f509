//! Why an arm is wrong: what it would compute with each fault, predicted and held against what it computed.

use std::collections::BTreeMap;

use fidelity_diagnose::{Numerics, Question, Rerun, diagnose};
use fidelity_emulator::Emulator;
use fidelity_trace::{BosConvention, CheckpointRow, Scope, Site, Trace};
use fidelity_verdict::{Diagnosis, ExitCode, Outcome, Verdict};

use crate::{error::CliError, inputs::Inputs, interrupt, progress::Progress, replay::is_of, resources};

/// The scopes that faults are predicted in.
const DIAGNOSED: [Scope; 3] = [Scope::Base, Scope::Prefill, Scope::Tbt];

/// What an arm is computed or read for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Its verdict; what is not faithful is diagnosed as well, unless asked not to.
    Verdict {
        /// Whether it is.
        diagnosed: bool,
    },
    /// Its diagnosis, whatever the verdict is.
    Diagnosis,
}

impl Purpose {
    /// Whether a diagnosis is to be made. Where it is asked for and cannot be, the verdict says so.
    pub(crate) fn asks(self, verdict: &mut Verdict) -> bool {
        let failed = verdict.exit_code == ExitCode::Device.code();
        let asked = match self {
            Self::Diagnosis => true,
            Self::Verdict { diagnosed } => diagnosed && !failed && verdict.verdict != Outcome::Faithful,
        };
        let mut compared = DIAGNOSED.iter().filter_map(|scope| verdict.scopes.get(scope));
        let possible = compared.any(|scope| scope.sites.contains_key(&Site::Logits));
        if asked && !possible {
            verdict.notes.push(
                "no diagnosis: faults are told apart by logits of base, prefill and tbt, and none were compared"
                    .to_owned(),
            );
        }
        asked && possible
    }
}

/// What an arm is diagnosed from: what it computed, and what predicts what it would compute. What was injected into it on
/// purpose is not among it.
pub(crate) struct Patient<'a> {
    pub(crate) inputs: &'a Inputs,
    pub(crate) device: &'a Trace,
    pub(crate) numerics: Numerics<'a>,
    /// The arm, where it can be run again.
    pub(crate) again: Option<Rerun<'a>>,
    pub(crate) progress: &'a Progress,
}

impl Patient<'_> {
    /// Adds the diagnosis to the verdict. A verdict that was asked for is not lost with a diagnosis that fails.
    pub(crate) fn diagnose(&self, verdict: &mut Verdict, purpose: Purpose) -> Result<(), CliError> {
        match self.look(verdict) {
            Ok(mut diagnosis) => {
                diagnosis.confirm = diagnosis.confirm.map(|command| of_checkpoint(command, self.inputs.row.as_ref()));
                verdict.diagnosis = Some(diagnosis);
                self.blame_recipe(verdict);
            }
            Err(error) if purpose != Purpose::Diagnosis => verdict.notes.push(format!("no diagnosis: {error}")),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn look(&self, verdict: &Verdict) -> Result<Diagnosis, CliError> {
        self.progress.say("looking for the fault");
        let checkpoint = &self.inputs.checkpoint;
        let float32 = Emulator::float32(checkpoint)?;
        let scopes: Vec<Scope> = DIAGNOSED.into_iter().filter(|scope| self.inputs.scopes.contains(scope)).collect();
        let question = Question {
            float32: &float32,
            numerics: self.numerics,
            checkpoint,
            right_ids: &BTreeMap::new(),
            bos: self.bos()?,
            first_bad_site: verdict.first_bad_site(),
        };
        Ok(diagnose(&question, self.device, &scopes, self.again.as_ref(), &|line| {
            interrupt::leave_if_asked();
            self.progress.say(line);
        })?)
    }

    /// How BOS is put before texts: as the row says that was asked for, else the one that the trace says it is of.
    fn bos(&self) -> Result<BosConvention, CliError> {
        let registry = resources::registry()?;
        let own = registry.rows.iter().find(|row| is_of(self.device.manifest(), row));
        Ok(self.inputs.row.as_ref().or(own).map_or(BosConvention::Tokenizer, |row| row.bos))
    }

    /// An emulator without any fault that predicts what is not faithful leaves nothing to find.
    fn blame_recipe(&self, verdict: &mut Verdict) {
        let of_recipe = verdict.is_of_the_recipe();
        if let (Numerics::Recipe(_, recipe), Some(diagnosis), true) = (self.numerics, &mut verdict.diagnosis, of_recipe)
        {
            diagnosis.sentence = format!(
                "the recipe {recipe} alone predicts this: an emulator of it without any fault computes what the arm does"
            );
        }
    }
}

/// The command for the checkpoint at hand. Where its folder is differs from machine to machine, and stays out of verdict.json.
fn of_checkpoint(command: String, row: Option<&CheckpointRow>) -> String {
    match row {
        Some(row) => format!("{command} --checkpoint {}", row.name),
        None => format!("{command} --weights DIR"),
    }
}
