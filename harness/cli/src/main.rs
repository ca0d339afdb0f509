//! The program: the only place where the parts meet. It computes nothing itself.

mod again;
mod args;
mod arms;
mod audit_text;
mod beside;
mod bisecting;
mod check_text;
mod commands;
mod described;
mod device;
mod diagnosis;
mod doctor;
mod error;
mod forge_steps;
mod gating;
mod github;
mod hailo;
mod history;
mod inputs;
mod interrupt;
mod join;
mod judge;
mod output;
mod progress;
mod recipe_text;
mod reference_cache;
mod replay;
mod resources;
mod run_folder;
mod shard;
mod sweep;
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
        Command::Bisect(args) => commands::bisect::bisect(args),
        Command::Sweep(sweep) => commands::sweep::sweep(sweep),
        Command::Merge(merge) => commands::merge::merge(merge),
        Command::Attribute(attribute) => commands::attribute::attribute(attribute),
        Command::Selftest(args) => commands::selftest::run(args),
        Command::Profile(profile) => commands::profile::profile(profile),
        Command::Advise(advise) => commands::advise::advise(advise),
        Command::Forge(args) => commands::forge::forge(args),
        Command::Gate(gate) => commands::gate::gate(gate),
        Command::Bless(bless) => commands::bless::bless(bless),
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
