//! `fidelity doctor`: what a run on a device needs, and what to do about what is missing.

use std::{
    env,
    path::{Path, PathBuf},
    time::Duration,
};

use fidelity_device::{hef::Hef, supervisor::inquire, worker::Inventory};
use fidelity_references::HubSettings;
use fidelity_reports::printable;
use fidelity_verdict::ExitCode;
use serde_json::json;

use crate::{
    args::DoctorArgs,
    doctor::{Line, State, of_hef, of_inventory},
    error::CliError,
    hailo::worker_command,
    output::{Form, print},
    reference_cache,
};

/// `ssh` may ask for a password, and the device may take its time to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// Below it a run may not find room for its traces.
const LITTLE_SPACE: u64 = 4 << 30;

pub(crate) fn doctor(args: &DoctorArgs) -> Result<u8, CliError> {
    let mut lines = Vec::new();
    let inventory = match worker_command(&args.worker) {
        Ok(command) => of_worker(&command, &mut lines),
        Err(error) => {
            lines.push(Line::missing("worker", "there is none", error.to_string()));
            None
        }
    };
    if let Some(path) = &args.hef {
        lines.push(match Hef::open(path) {
            Ok(hef) => of_hef(hef.description(), inventory.as_ref()),
            Err(error) => Line::missing("HEF", printable(&error.to_string()), "see `fidelity audit`"),
        });
    }
    lines.extend(of_host());
    let missing = lines.iter().filter(|line| line.state == State::Missing).count();
    let code = if missing > 0 { ExitCode::Device } else { ExitCode::Pass }.code();
    let last = match missing {
        0 => "ready: a run on a device has what it needs\n".to_owned(),
        count => format!("not ready: {count} of {} things that a run on a device needs are missing\n", lines.len()),
    };
    print(&match Form::of(args.json, args.quiet) {
        Form::Json => {
            json!({"format": "fidelity-doctor", "version": 1, "exit_code": code, "lines": lines}).to_string() + "\n"
        }
        Form::Line => last,
        Form::Tables => format!("{}\n{last}", text(&lines)),
    });
    Ok(code)
}

fn of_worker(command: &str, lines: &mut Vec<Line>) -> Option<Inventory> {
    match inquire(command, PATIENCE) {
        Ok(inventory) => {
            let found = format!("`{}` answers, version {}", printable(command), printable(&inventory.worker));
            lines.push(Line::ok("worker", found));
            lines.extend(of_inventory(&inventory));
            Some(inventory)
        }
        Err(failure) => {
            let found = format!("`{}`: {}", printable(command), printable(&failure.to_string()));
            lines.push(Line::missing("worker", found, "start it by hand and see what it says; --worker gives another"));
            None
        }
    }
}

/// What this machine has.
fn of_host() -> Vec<Line> {
    let hub = HubSettings::from_environment(false);
    let token = if hub.token.is_some() { "a token is set" } else { "no token: gated checkpoints cannot be fetched" };
    let there = if hub.cache.is_dir() { "" } else { ", not made yet" };
    let shown = |path: &Path| printable(&path.display().to_string());
    let mut lines = vec![Line::ok("Hub cache", format!("{}{there}; {token}", shown(&hub.cache)))];
    let references = reference_cache::folder();
    lines.push(match &references {
        Some(folder) => Line::ok("kept references", shown(folder)),
        None => Line::warning("kept references", "nowhere to keep them", "set FIDELITY_CACHE, or HOME"),
    });
    let here = env::current_dir().unwrap_or_else(|_| PathBuf::from("."));
    let mut folders = vec![("disk of runs", here), ("disk of the Hub cache", hub.cache)];
    folders.extend(references.map(|folder| ("disk of references", folder)));
    lines.extend(folders.into_iter().filter_map(|(what, folder)| space(what, &folder)));
    lines
}

/// What is free where a folder is or will be.
#[cfg(unix)]
fn space(what: &'static str, folder: &Path) -> Option<Line> {
    let place = folder.ancestors().find(|folder| folder.is_dir())?;
    let found = nix::sys::statvfs::statvfs(place).ok()?;
    #[allow(clippy::useless_conversion, reason = "they are narrower on machines of 32 bits")]
    let free = u64::from(found.blocks_available()).saturating_mul(found.fragment_size().into());
    let said = format!("{:.1} GB free", free as f64 / 1e9);
    Some(match free < LITTLE_SPACE {
        true => Line::warning(what, said, "make room, or run with --discard-traces"),
        false => Line::ok(what, said),
    })
}

#[cfg(not(unix))]
fn space(_: &'static str, _: &Path) -> Option<Line> {
    None
}

fn text(lines: &[Line]) -> String {
    let width = lines.iter().map(|line| line.what.len()).max().unwrap_or_default();
    let of = |line: &Line| {
        let mark = match line.state {
            State::Ok => "ok     ",
            State::Warning => "warning",
            State::Missing => "missing",
        };
        let remedy =
            if line.remedy.is_empty() { String::new() } else { format!("\n{:>1$} {2}", "->", width + 10, line.remedy) };
        format!("{mark} {:width$}  {}{remedy}\n", line.what, line.found)
    };
    lines.iter().map(of).collect()
}
