//! `fidelity completions`: what a shell needs to complete commands and flags.

use clap::CommandFactory;

use crate::{
    args::{Arguments, CompletionsArgs},
    error::CliError,
    output::emit,
};

pub(crate) fn completions(args: &CompletionsArgs) -> Result<u8, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Arguments::command(), "fidelity", &mut script);
    emit(&String::from_utf8_lossy(&script));
    Ok(0)
}
