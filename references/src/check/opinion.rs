//! The engine against another implementation.

use candle_core::Result;
use fidelity_trace::in_parallel;

use super::{
    bars::OPINION_BAR,
    report::{CheckOutcome, OpinionPart, OpinionRow, SiteDistance},
    rows::{Whole, relative_l2},
};
use crate::{
    Checkpoint, CheckpointError, Decoder, Wiring,
    second_opinion::{NoOpinion, SecondOpinion},
};

/// Compares logits at every position the second implementation computes rightly. `noise` is the logits' own, by prompt and position.
pub(super) fn ask(
    checkpoint: &Checkpoint,
    decoder: &Decoder,
    wiring: &Wiring,
    prompts: &[(String, Vec<u32>)],
    jobs: usize,
    noise: &[Vec<f64>],
    count: &(dyn Fn() + Sync),
) -> std::result::Result<OpinionPart, CheckpointError> {
    let longest = prompts.iter().map(|(_, token_ids)| token_ids.len()).max().unwrap_or(0);
    let second = match checkpoint.second_opinion(longest) {
        Ok(second) => second,
        Err(NoOpinion::Failed(error)) => return Err(error),
        Err(NoOpinion::NotAvailable(reason)) => return Ok(not_available(reason, prompts)),
    };
    let end = second.about.first_not_compared.unwrap_or(usize::MAX);
    let rows = in_parallel(prompts.len(), jobs, |index| {
        let (id, token_ids) = &prompts[index];
        let compared = &token_ids[..token_ids.len().min(end)];
        let rows = compare(&second, decoder, wiring, token_ids, compared, &noise[index]);
        count();
        let rows = rows.map_err(CheckpointError::computing(format!("the second opinion on prompt `{id}`")))?;
        Ok::<_, CheckpointError>(rows.into_iter().map(move |row| OpinionRow { prompt: index, ..row }))
    })?;
    let rows = rows.into_iter().flatten().collect();
    Ok(concluded(second, rows, prompts))
}

fn compare(
    second: &SecondOpinion,
    decoder: &Decoder,
    wiring: &Wiring,
    token_ids: &[u32],
    compared: &[u32],
    noise: &[f64],
) -> Result<Vec<OpinionRow>> {
    let whole = Whole::logits_alone(decoder, wiring, token_ids)?;
    let mut rows = Vec::with_capacity(compared.len());
    second.rows(compared, &mut |theirs| {
        let position = rows.len();
        let ours: Vec<f64> = whole[position].iter().map(|value| f64::from(*value)).collect();
        let (relative, max_abs) = relative_l2(&ours, theirs);
        let relative_l2 = if ours.len() == theirs.len() { relative } else { f64::NAN };
        let noise = noise.get(position).copied().unwrap_or(f64::NAN);
        let same_choice = choice(&whole[position]) == choice(theirs);
        rows.push(OpinionRow {
            prompt: 0,
            position,
            relative_l2,
            max_abs,
            noise,
            bar: OPINION_BAR.at(noise),
            same_choice,
        });
    })?;
    Ok(rows)
}

/// The highest logit's id, the lowest on equality.
fn choice(row: &[f32]) -> Option<usize> {
    let better = |best: usize, id: usize| if row[id] > row[best] { id } else { best };
    (0..row.len()).reduce(better)
}

fn not_available(reason: String, prompts: &[(String, Vec<u32>)]) -> OpinionPart {
    OpinionPart {
        outcome: CheckOutcome::NotApplicable,
        reason: format!("not available: {reason}"),
        implementation: None,
        rows_not_compared: prompts.iter().map(|(_, token_ids)| token_ids.len()).sum(),
        logits: None,
        rows: Vec::new(),
    }
}

fn concluded(second: SecondOpinion, rows: Vec<OpinionRow>, prompts: &[(String, Vec<u32>)]) -> OpinionPart {
    let all: usize = prompts.iter().map(|(_, token_ids)| token_ids.len()).sum();
    let rows_not_compared = all - rows.len();
    let logits = SiteDistance::of(&rows.iter().map(OpinionRow::as_row).collect::<Vec<_>>());
    let left = second.about.not_compared_because.as_deref().unwrap_or_default();
    let (outcome, reason) = match &logits {
        None => (CheckOutcome::NotApplicable, "no row was compared".to_owned()),
        Some(logits) if logits.rows_above > 0 => {
            (CheckOutcome::Fail, format!("{} of {} rows are above their bars", logits.rows_above, logits.rows))
        }
        Some(_) if rows_not_compared > 0 => (
            CheckOutcome::Incomplete,
            format!("{} of {all} rows agree; {rows_not_compared} were not compared, since {left}", rows.len()),
        ),
        Some(logits) => (CheckOutcome::Pass, format!("all {all} rows agree, the furthest to {:.2e}", logits.max)),
    };
    OpinionPart { outcome, reason, implementation: Some(second.about), rows_not_compared, logits, rows }
}
