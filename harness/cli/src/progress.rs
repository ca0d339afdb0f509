//! Progress on a terminal; nothing when standard error is piped.

use std::io::{IsTerminal, stderr};

use indicatif::{ProgressBar, ProgressStyle};

pub(crate) struct Progress {
    shown: bool,
    quiet: bool,
}

impl Progress {
    pub(crate) fn new(quiet: bool) -> Self {
        Self { shown: !quiet && stderr().is_terminal(), quiet }
    }

    pub(crate) fn bar(&self, what: &str, prompts: usize) -> ProgressBar {
        if !self.shown {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::new(prompts as u64).with_message(what.to_owned());
        let style = ProgressStyle::with_template("{msg:>10} {wide_bar} {pos}/{len} prompts, {eta} left");
        bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }

    /// Trials of a search, whose number is a guess.
    pub(crate) fn trials(&self) -> ProgressBar {
        if !self.shown {
            return ProgressBar::hidden();
        }
        let style = ProgressStyle::with_template("{msg:>10} {wide_bar} {pos} of about {len} trials, {elapsed}");
        ProgressBar::new(0).with_message("searching").with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
    }

    pub(crate) fn say(&self, what: &str) {
        if self.shown {
            crate::output::narrate(what);
        }
    }

    /// Says something about the result itself, also when piped.
    pub(crate) fn note(&self, what: &str) {
        if !self.quiet {
            crate::output::narrate(what);
        }
    }
}
