//! Exit codes of the program.

/// What the process returns to its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitCode {
    /// Everything asked for holds.
    Pass = 0,
    /// The arm is not faithful, or the gate is red.
    FidelityFailure = 1,
    /// The program was called or configured wrongly, or an input cannot be used.
    Usage = 2,
    /// Nothing or too little was compared to decide.
    Inconclusive = 3,
    /// The device or its environment failed.
    Device = 4,
    /// Interrupted by a signal.
    Interrupted = 130,
}

impl ExitCode {
    /// The number.
    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }
}
