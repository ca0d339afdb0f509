//! What the host knows of a conversation. Rolling back is restoring it and setting the ring's offset.

use std::collections::VecDeque;

/// A token and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fed {
    pub(super) token: u32,
    pub(super) position: u32,
}

/// A conversation so far.
#[derive(Clone, Debug)]
pub(super) struct State {
    /// The last tokens, as many as prefill has rows; `None` is padding.
    window: VecDeque<Option<Fed>>,
    /// Tokens so far, and the position of the next.
    pub(super) usage: usize,
    /// Read offset of the cache's ring.
    pub(super) offset: usize,
}

impl State {
    pub(super) fn new(rows: usize) -> Self {
        Self { window: VecDeque::from(vec![None; rows]), usage: 0, offset: 0 }
    }

    /// Takes in a step's tokens. The ring has `length` entries.
    pub(super) fn push(&mut self, tokens: &[u32], length: usize) {
        for token in tokens {
            self.window.pop_front();
            self.window.push_back(Some(Fed { token: *token, position: self.usage as u32 }));
            self.usage += 1;
        }
        self.offset = (self.offset + tokens.len()) % length;
    }

    /// The last `rows` of the window.
    pub(super) fn rows(&self, rows: usize) -> impl Iterator<Item = Option<Fed>> + '_ {
        self.window.iter().skip(self.window.len() - rows).copied()
    }
}
