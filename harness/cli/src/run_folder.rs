//! The folder of a run, and run.json: what varies from run to run of the same inputs.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use fidelity_history::Occasion;
use fidelity_trace::hex;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::{error::CliError, interrupt, resources};

pub(crate) struct RunFolder {
    path: PathBuf,
    begun: Timestamp,
    clock: Instant,
}

impl RunFolder {
    /// `out`, or a new folder `runs/<checkpoint>/<stamp>/`.
    pub(crate) fn create(out: Option<&Path>, checkpoint: &str) -> Result<Self, CliError> {
        let begun = Timestamp::now();
        let clock = Instant::now();
        let failed = |path: &Path, source| CliError::Io { action: "create", path: path.to_owned(), source };
        if let Some(path) = out {
            fs::create_dir_all(path).map_err(|source| failed(path, source))?;
            interrupt::kept_in(path);
            return Ok(Self { path: path.to_owned(), begun, clock });
        }
        let parent = Path::new("runs").join(checkpoint.replace(['/', '\\'], "_"));
        fs::create_dir_all(&parent).map_err(|source| failed(&parent, source))?;
        let stamp = begun.strftime("%Y%m%d-%H%M%S").to_string();
        // Two runs may begin in one second.
        for suffix in 0.. {
            let name = if suffix == 0 { stamp.clone() } else { format!("{stamp}-{suffix}") };
            let path = parent.join(name);
            match fs::create_dir(&path) {
                Ok(()) => {
                    interrupt::kept_in(&path);
                    return Ok(Self { path, begun, clock });
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(source) => return Err(failed(&path, source)),
            }
        }
        unreachable!("some suffix is free")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn wall_time(&self) -> Duration {
        self.clock.elapsed()
    }

    /// Writes run.json.
    pub(crate) fn describe(&self, prompts_origin: &str) -> Result<(), CliError> {
        self.describe_run(prompts_origin, false).map(drop)
    }

    /// Writes run.json, and says what it says of this run to whoever remembers it. A run that was resumed is the run that began.
    pub(crate) fn describe_run(&self, prompts_origin: &str, resumed: bool) -> Result<Occasion, CliError> {
        let (id, begun) = self.began_as(resumed).unwrap_or_else(|| (self.new_id(), format!("{:.6}", self.begun)));
        let wall_seconds = self.wall_time().as_secs_f64();
        let fidelity = env!("CARGO_PKG_VERSION");
        let description = json!({
            "format": "fidelity-run",
            "version": 1,
            "id": id,
            "fidelity": fidelity,
            "command": env::args().collect::<Vec<_>>(),
            "folder": env::current_dir().unwrap_or_default(),
            "begun": begun,
            "wall_seconds": wall_seconds,
            "prompts": prompts_origin,
            "host": { "os": env::consts::OS, "architecture": env::consts::ARCH,
                      "cores": std::thread::available_parallelism().map_or(1, usize::from) },
        });
        if resumed {
            self.tidy();
        }
        resources::write(&self.path.join("run.json"), format!("{description:#}\n"))?;
        let folder = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone()).display().to_string();
        Ok(Occasion { id, begun, wall_seconds, folder, fidelity: fidelity.to_owned() })
    }

    /// Removes files that a killed process was writing.
    fn tidy(&self) {
        let traces = ["reference", "arm", "emulator"].map(|trace| self.path.join(trace));
        let prompts = traces.iter().map(|trace| trace.join("prompts"));
        for folder in std::iter::once(self.path.clone()).chain(prompts).chain(traces.iter().cloned()) {
            let files = fs::read_dir(folder).into_iter().flatten().flatten();
            let left = files.filter(|file| file.file_name().to_string_lossy().starts_with(".writing-"));
            left.for_each(|file| {
                // In the way of nobody.
                let _ = fs::remove_file(file.path());
            });
        }
    }

    /// Who the run is that is resumed, if it had come so far.
    fn began_as(&self, resumed: bool) -> Option<(String, String)> {
        let text = fs::read_to_string(self.path.join("run.json")).ok().filter(|_| resumed)?;
        let before: Value = serde_json::from_str(&text).ok()?;
        let text = |key: &str| before[key].as_str().map(str::to_owned);
        Some((text("id")?, text("begun")?))
    }

    /// No two runs have the same: not two at once on a machine, nor two on machines that share a folder.
    fn new_id(&self) -> String {
        let named = format!("{}\n{}\n{:?}", self.begun.as_nanosecond(), std::process::id(), self.path.canonicalize());
        hex(&Sha256::digest(named)[..16])
    }
}

/// The command line, ready to be pasted into a shell.
pub(crate) fn command_line() -> String {
    shell_line(env::args().skip(1))
}

/// Arguments of this program as a line for a shell.
pub(crate) fn shell_line(arguments: impl Iterator<Item = String>) -> String {
    let plain =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=:,@".contains(c));
    let arguments = arguments.map(|argument| match plain(&argument) {
        true => argument,
        false => format!("'{}'", argument.replace('\'', r"'\''")),
    });
    std::iter::once("fidelity".to_owned()).chain(arguments).collect::<Vec<_>>().join(" ")
}
