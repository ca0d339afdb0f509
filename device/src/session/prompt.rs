//! The scopes of one prompt. Positions, rows and ids are those of the reference's scopes: a trace's rows meet by position.

use std::collections::BTreeMap;

use fidelity_trace::Scope;

use super::{Feeding, Job, Session, SessionError, Sink, State};

impl Session {
    /// Computes a prompt from the beginning of a conversation.
    ///
    /// # Errors
    /// It cannot be computed, the device fails, or nobody takes the results. The next prompt may be tried, unless
    /// [`Session::is_poisoned`].
    pub fn run(&mut self, job: &Job, sink: &mut dyn Sink) -> Result<(), SessionError> {
        self.check(job)?;
        let mut run = Run { session: self, job, sink, own: Vec::new() };
        match run.session.plan.geometry.feeding {
            Feeding::Whole => run.whole(),
            Feeding::PrefillAndTbt | Feeding::PrefillOnly => run.cached(),
        }
    }

    fn check(&self, job: &Job) -> Result<(), SessionError> {
        let refuse = |reason: String| Err(SessionError::Request { reason });
        let geometry = &self.plan.geometry;
        if job.token_ids.is_empty() {
            return refuse("the prompt has no token".into());
        }
        let offered = geometry.feeding.scopes();
        if let Some(scope) = job.scopes.iter().find(|scope| !offered.contains(scope)) {
            let offered: Vec<_> = offered.iter().map(|scope| scope.name()).collect();
            return refuse(format!("the HEF does not offer scope {scope}; it offers {}", offered.join(", ")));
        }
        let forced = [Scope::Tbt, Scope::TbtSelf].iter().any(|scope| job.scopes.contains(scope));
        if forced && job.new_tokens > 0 && job.continuation.is_none() {
            return refuse("tbt and tbt_self need the ids to be fed".into());
        }
        let fed = job.token_ids.iter().chain(job.continuation.iter().flatten());
        if let Some(id) = fed.into_iter().find(|id| **id as usize >= geometry.embedding_rows) {
            return refuse(format!("id {id} has no row in embeddings.bin, which has {}", geometry.embedding_rows));
        }
        if job.vocabulary.is_some_and(|vocabulary| vocabulary == 0 || vocabulary > geometry.logits()) {
            let (found, logits) = (job.vocabulary.unwrap_or_default(), geometry.logits());
            return refuse(format!("a vocabulary of {found}, but the HEF gives {logits} logits"));
        }
        if geometry.feeding == Feeding::Whole && job.token_ids.len() > geometry.prefill_rows {
            let (found, rows) = (job.token_ids.len(), geometry.prefill_rows);
            return refuse(format!("the prompt has {found} tokens, but the HEF takes {rows} at most"));
        }
        Ok(())
    }
}

struct Run<'a> {
    session: &'a mut Session,
    job: &'a Job,
    sink: &'a mut dyn Sink,
    /// The ids the device itself chooses, while what it was fed is what it chose.
    own: Vec<u32>,
}

impl<'a> Run<'a> {
    fn wants(&self, scope: Scope) -> bool {
        self.job.scopes.contains(&scope)
    }

    /// One run a wanted row, or one for all where a run gives all.
    fn whole(&mut self) -> Result<(), SessionError> {
        let tokens = &self.job.token_ids;
        if !self.wants(Scope::Base) {
            return Ok(());
        }
        let gives_all = self.session.plan.geometry.output_rows > 1;
        let first = if gives_all { tokens.len() - 1 } else { self.job.prefill_rows.first(tokens.len()) };
        for last in first..tokens.len() {
            self.session.restart()?;
            self.session.step(false, &tokens[..=last], false)?;
            self.rows(Scope::Base, tokens.len().min(last + 1), 0)?;
        }
        Ok(())
    }

    fn cached(&mut self) -> Result<(), SessionError> {
        if self.wants(Scope::Prefill) && self.session.plan.geometry.output_rows == 1 {
            self.prefixes()?;
        }
        self.prefill(true)?;
        if self.job.new_tokens == 0 {
            return Ok(());
        }
        self.own.push(self.choice());
        let prompt_end = self.session.state.clone();
        let mut parted = prompt_end.clone();
        if self.wants(Scope::Tbt) {
            self.forced(&mut parted)?;
        }
        if self.wants(Scope::TbtFree) {
            self.free(parted)?;
        }
        if self.wants(Scope::TbtSelf) {
            self.self_only(prompt_end)?;
        }
        Ok(())
    }

    /// Rows of the prompt that feeding all of it does not give. Prefixes whose lengths are equal modulo a chunk share their
    /// chunks, so that each row costs one run.
    fn prefixes(&mut self) -> Result<(), SessionError> {
        let (tokens, chunk) = (&self.job.token_ids, self.session.plan.geometry.prefill_rows);
        let first = self.job.prefill_rows.first(tokens.len());
        let mut longest = BTreeMap::new();
        for length in first + 1..tokens.len() {
            longest.insert(length % chunk, length);
        }
        longest.remove(&(tokens.len() % chunk));
        for length in longest.into_values() {
            self.chunks(&tokens[..length], true)?;
        }
        Ok(())
    }

    /// Feeds the whole prompt; its wanted rows are handed on where `rows` says so.
    fn prefill(&mut self, rows: bool) -> Result<(), SessionError> {
        let tokens = &self.job.token_ids;
        if tokens.len() == 1 && self.session.tbt.is_some() {
            self.session.restart()?;
            self.session.step(true, tokens, false)?;
            return self.after_chunk(1, 1, rows);
        }
        self.chunks(tokens, rows)
    }

    /// The remainder first, then whole chunks.
    fn chunks(&mut self, tokens: &[u32], rows: bool) -> Result<(), SessionError> {
        self.session.restart()?;
        let chunk = self.session.plan.geometry.prefill_rows;
        let (remainder, whole) = tokens.split_at(tokens.len() % chunk);
        let mut done = 0;
        for tokens in [remainder].into_iter().filter(|tokens| !tokens.is_empty()).chain(whole.chunks(chunk)) {
            self.session.step(false, tokens, false)?;
            done += tokens.len();
            self.after_chunk(done, tokens.len(), rows)?;
        }
        Ok(())
    }

    /// Hands on the wanted rows of a chunk of `fresh` tokens, `done` in all.
    fn after_chunk(&mut self, done: usize, fresh: usize, rows: bool) -> Result<(), SessionError> {
        let first = self.job.prefill_rows.first(self.job.token_ids.len());
        if rows && self.wants(Scope::Prefill) && done > first {
            return self.rows(Scope::Prefill, done.min(fresh), done - fresh);
        }
        self.sink.step(Scope::Prefill).map_err(SessionError::Sink)
    }

    /// Hands on the last run's rows of the prompt's tokens from `first` on, `fresh` of them or as many as it gives.
    fn rows(&mut self, scope: Scope, fresh: usize, first: usize) -> Result<(), SessionError> {
        let width = self.session.plan.geometry.logits();
        let kept = self.job.vocabulary.unwrap_or(width);
        let given = (self.session.logits.len() / width).min(fresh);
        for back in (0..given).rev() {
            let at = first + fresh - 1 - back;
            let end = self.session.logits.len() - back * width;
            let logits = &self.session.logits[end - width..][..kept];
            self.sink.row(scope, at as u32, self.job.token_ids[at], logits).map_err(SessionError::Sink)?;
        }
        Ok(())
    }

    /// Feeds the given ids; `parted` becomes the state in which the device would have chosen otherwise.
    fn forced(&mut self, parted: &mut State) -> Result<(), SessionError> {
        for (step, token) in self.job.continued().iter().enumerate() {
            self.one(Some(Scope::Tbt), *token, false)?;
            // While the device chooses what it is forced to, forced steps are its free steps too.
            if self.own.len() == step + 1 && self.own.last() == Some(token) {
                self.own.push(self.choice());
                *parted = self.session.state.clone();
            }
        }
        Ok(())
    }

    /// Lets the device go on with the ids it chooses, from where it parted with what it was fed.
    fn free(&mut self, parted: State) -> Result<(), SessionError> {
        self.resume(parted)?;
        let eos = &self.job.eos;
        while self.own.len() < self.job.new_tokens && !self.own.iter().any(|id| eos.contains(id)) {
            let Some(token) = self.own.last().copied() else { break };
            if token as usize >= self.session.plan.geometry.embedding_rows {
                let reason = format!("the device chose id {token}, which has no row in embeddings.bin");
                return Err(SessionError::Request { reason });
            }
            self.one(None, token, false)?;
            self.own.push(self.choice());
        }
        let end = self.own.iter().position(|id| eos.contains(id)).map_or(self.own.len(), |last| last + 1);
        self.own.truncate(end.min(self.job.new_tokens));
        self.sink.generated(&self.own).map_err(SessionError::Sink)
    }

    /// Goes back to a state, or there again where the ring was overwritten since.
    fn resume(&mut self, state: State) -> Result<(), SessionError> {
        if state.usage == self.session.state.usage {
            return Ok(());
        }
        if self.session.is_intact(&state) {
            return self.session.set(state);
        }
        self.prefill(false)?;
        let fed = self.own.len() - 1;
        (0..fed).try_for_each(|step| self.one(None, self.own[step], false))
    }

    /// Steps that attend to nothing but themselves; what the cache holds does not matter to them.
    fn self_only(&mut self, prompt_end: State) -> Result<(), SessionError> {
        self.session.set(prompt_end)?;
        for token in self.job.continued() {
            self.one(Some(Scope::TbtSelf), *token, true)?;
        }
        Ok(())
    }

    /// One token, and its row where `scope` keeps rows.
    fn one(&mut self, scope: Option<Scope>, token: u32, self_only: bool) -> Result<(), SessionError> {
        let position = self.session.state.usage as u32;
        self.session.step(true, &[token], self_only)?;
        let sent = match scope {
            Some(scope) => {
                let logits = last_row(self.session, self.job);
                self.sink.row(scope, position, token, logits)
            }
            None => self.sink.step(Scope::TbtFree),
        };
        sent.map_err(SessionError::Sink)
    }

    /// The id with the highest logit; the lowest id on equality. NaN is never the highest.
    fn choice(&self) -> u32 {
        let row = last_row(self.session, self.job);
        let mut best = 0;
        for (id, value) in row.iter().enumerate() {
            if *value > row[best] || row[best].is_nan() {
                best = id;
            }
        }
        best as u32
    }
}

/// The newest token's logits, without padding ids.
fn last_row<'a>(session: &'a Session, job: &Job) -> &'a [f32] {
    let width = session.plan.geometry.logits();
    let logits = &session.logits;
    &logits[logits.len() - width..][..job.vocabulary.unwrap_or(width)]
}
