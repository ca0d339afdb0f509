//! The program: the only place where the parts meet. It computes nothing itself.

mod args;
mod arms;
mod audit_text;
mod beside;
mod check_text;
mod commands;
mod device;
mod diagnosis;
mod doctor;
mod error;
mod github;
mod hailo;
mod history;
mod inputs;
mod interrupt;
mod judge;
mod output;
mod progress;
mod recipe_text;
mod reference_cache;
mod replay;
mod resources;
mod run_folder;
mod threads;

use std::process::ExitCode;

use clap::Parser;

use args::{Arguments, Command};

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    threads::one_pool(&arguments.command);
    interrupt::listen(&arguments.command);
    let outcome = match &arguments.command {
        Command::Run(run) => commands::run::run(run),
        Command::Reference(reference) if reference.check => commands::check::check(reference),
        Command::Reference(reference) => commands::record::reference(reference),
        Command::Record(record) => commands::record::record(record),
        Command::Compare(compare) => commands::compare::compare(compare),
        Command::Import(import) => commands::import::import(import),
        Command::Diagnose(diagnose) => commands::diagnose::diagnose(diagnose),
        Command::Selftest(args) => commands::selftest::run(args),
        Command::Profile(profile) => commands::profile::profile(profile),
        Command::Advise(advise) => commands::advise::advise(advise),
        Command::Report(report) => commands::report::report(report),
        Command::Audit(audit) => commands::audit::audit(audit),
        Command::List(list) => commands::list::list(list),
        Command::Cache(cache) => commands::cache::cache(cache),
        Command::Doctor(args) => commands::doctor::doctor(args),
        Command::History(args) => commands::history::history(args),
        Command::Completions(args) => commands::completions::completions(args),
        #[cfg(feature = "hailo")]
        Command::Worker => return fidelity_device::worker::run(|| Some(Box::new(fidelity_device::hailo::HailoRt))),
    };
    match outcome {
        Ok(code) => ExitCode::from(output::exit_code(interrupt::exit_code(code))),
        Err(error) => {
            output::complain(&error);
            ExitCode::from(error.exit_code().code())
        }
    }
}
