//! Rows of one prompt as they come, put in order once all are there.

use std::collections::BTreeMap;

use fidelity_trace::{Capture, Rows, Scope, Site};

use crate::session::Job;

/// What a worker computed of one prompt: nothing but what was asked for, so that no worker fills the memory.
#[derive(Debug)]
pub(super) struct Collected<'a> {
    job: &'a Job,
    /// Logits of a row.
    width: usize,
    /// Token and logits by scope and position.
    rows: BTreeMap<(Scope, u32), (u32, Vec<f32>)>,
    generated: Option<Vec<u32>>,
}

impl<'a> Collected<'a> {
    pub(super) const fn of(job: &'a Job, width: usize) -> Self {
        Self { job, width, rows: BTreeMap::new(), generated: None }
    }

    /// Takes a row of float32, little-endian; says what is wrong with one that does not fit.
    pub(super) fn add(&mut self, scope: Scope, position: u32, token: u32, payload: &[u8]) -> Result<(), String> {
        match self.job.fed(scope, position) {
            Some(fed) if fed == token => {}
            Some(fed) => {
                return Err(format!("a row of {scope} at position {position} of token {token}; {fed} was fed there"));
            }
            None => return Err(format!("a row of {scope} at position {position}, which was not asked for")),
        }
        let (values, rest) = payload.as_chunks::<4>();
        if !rest.is_empty() || values.len() != self.width {
            return Err(format!("a row of {} bytes, expected {} logits", payload.len(), self.width));
        }
        let logits = values.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        match self.rows.insert((scope, position), (token, logits)) {
            None => Ok(()),
            Some(_) => Err(format!("a second row of {scope} at position {position}")),
        }
    }

    /// Takes the generated ids; says what is wrong with those that were not asked for.
    pub(super) fn generated(&mut self, ids: Vec<u32>) -> Result<(), String> {
        let most = if self.job.scopes.contains(&Scope::TbtFree) { self.job.new_tokens } else { 0 };
        if ids.len() > most {
            return Err(format!("{} generated ids; {most} were asked for", ids.len()));
        }
        if let Some(id) = ids.iter().find(|id| **id as usize >= self.width) {
            return Err(format!("a generated id {id} beyond {} logits", self.width));
        }
        match self.generated.replace(ids) {
            None => Ok(()),
            Some(_) => Err("generated ids a second time".into()),
        }
    }

    pub(super) fn write(self, capture: &mut Capture) {
        for ((scope, position), (token, logits)) in self.rows {
            capture.rows(scope, Rows { positions: &[position], token_ids: &[token] });
            capture.tensor(scope, Site::Logits, &[1, logits.len()], &logits);
        }
        if self.generated.is_some() {
            capture.generated = self.generated;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::PrefillRows;

    /// A prompt of two tokens, after which 7 and 8 are fed; 9 never is.
    fn job(scopes: &[Scope]) -> Job {
        Job {
            token_ids: vec![5, 6],
            scopes: scopes.to_vec(),
            continuation: Some(vec![7, 8, 9]),
            new_tokens: 3,
            eos: Vec::new(),
            vocabulary: None,
            prefill_rows: PrefillRows::All,
        }
    }

    const ROW: [u8; 40] = [0; 40];

    #[test]
    fn rows_of_what_was_fed_are_taken_once() {
        let job = job(&[Scope::Prefill, Scope::Tbt]);
        let mut collected = Collected::of(&job, 10);
        for (scope, position, token) in [(Scope::Prefill, 0, 5), (Scope::Prefill, 1, 6), (Scope::Tbt, 2, 7)] {
            assert_eq!(collected.add(scope, position, token, &ROW), Ok(()), "{scope} {position}");
        }
        assert_eq!(collected.add(Scope::Tbt, 3, 8, &ROW[..39]), Err("a row of 39 bytes, expected 10 logits".into()));
        assert_eq!(collected.add(Scope::Tbt, 3, 8, &ROW), Ok(()));
        assert_eq!(collected.add(Scope::Tbt, 3, 8, &ROW), Err("a second row of tbt at position 3".into()));
    }

    #[test]
    fn rows_nobody_asked_for_are_refused() {
        let job = job(&[Scope::Prefill, Scope::Tbt, Scope::TbtFree]);
        let mut collected = Collected::of(&job, 10);
        for (scope, position, token, said) in [
            (Scope::TbtSelf, 2, 7, "tbt_self at position 2, which was not asked for"),
            (Scope::Base, 0, 5, "base at position 0, which was not asked for"),
            (Scope::TbtFree, 2, 7, "tbt_free at position 2, which was not asked for"),
            (Scope::Prefill, 2, 7, "prefill at position 2, which was not asked for"),
            (Scope::Tbt, 1, 6, "tbt at position 1, which was not asked for"),
            (Scope::Tbt, 4, 9, "tbt at position 4, which was not asked for"),
            (Scope::Tbt, u32::MAX, 0, "which was not asked for"),
            (Scope::Prefill, 1, 5, "prefill at position 1 of token 5; 6 was fed there"),
            (Scope::Tbt, 2, 8, "tbt at position 2 of token 8; 7 was fed there"),
        ] {
            let reason = collected.add(scope, position, token, &ROW).expect_err(said);
            assert!(reason.ends_with(said), "{reason}");
        }
        assert!(collected.rows.is_empty());
    }

    #[test]
    fn no_more_ids_are_taken_than_were_asked_for() {
        let (forced, free) = (job(&[Scope::Tbt]), job(&[Scope::TbtFree]));
        let generated = |job, ids: &[u32]| Collected::of(job, 10).generated(ids.to_vec());
        assert_eq!(generated(&free, &[1, 2, 9]), Ok(()));
        assert_eq!(generated(&free, &[1, 2, 3, 4]), Err("4 generated ids; 3 were asked for".into()));
        assert_eq!(generated(&forced, &[1]), Err("1 generated ids; 0 were asked for".into()));
        assert_eq!(generated(&free, &[10]), Err("a generated id 10 beyond 10 logits".into()));
        let mut twice = Collected::of(&free, 10);
        assert_eq!(twice.generated(Vec::new()), Ok(()));
        assert_eq!(twice.generated(Vec::new()), Err("generated ids a second time".into()));
    }
}
