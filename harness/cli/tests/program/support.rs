//! Calling the program in a folder of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Output,
};

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;

/// A working directory.
pub(crate) struct Desk(TempDir);

impl Desk {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a temporary folder"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("inside")).expect("creates");
        fs::write(&path, text).expect("writes");
        path
    }

    /// Runs `fidelity` here, with no Hub in reach and none of the user's settings.
    pub(crate) fn fidelity(&self, arguments: &[&str]) -> Answer {
        self.fidelity_in(&[], arguments)
    }

    /// The same with variables of the environment.
    pub(crate) fn fidelity_in(&self, variables: &[(&str, &str)], arguments: &[&str]) -> Answer {
        self.call("http://127.0.0.1:9", variables, arguments)
    }

    /// The same with a Hub.
    pub(crate) fn fidelity_with(&self, endpoint: &str, arguments: &[&str]) -> Answer {
        self.call(endpoint, &[], arguments)
    }

    fn call(&self, endpoint: &str, variables: &[(&str, &str)], arguments: &[&str]) -> Answer {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fidelity"));
        command
            .current_dir(self.0.path())
            .env("HF_HOME", self.path("hf"))
            .env("HF_ENDPOINT", endpoint)
            .env("FIDELITY_CACHE", self.path("cache"))
            .args(arguments);
        for variable in [
            "GITHUB_ACTIONS",
            "GITHUB_STEP_SUMMARY",
            "FIDELITY_DEVICE",
            "FIDELITY_HISTORY",
            "HF_HUB_CACHE",
            "HF_TOKEN",
            "HF_HUB_OFFLINE",
            "SSL_CERT_FILE",
        ] {
            command.env_remove(variable);
        }
        command.envs(variables.iter().copied());
        let Output { status, stdout, stderr } = command.output().expect("starts");
        let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
        Answer { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
    }
}

/// What the program said.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Answer {
    pub(crate) fn last_line(&self) -> &str {
        self.stdout.lines().last().unwrap_or_default()
    }
}

pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("there")).expect("JSON")
}

/// A golden checkpoint of the references, as a folder a person may have.
pub(crate) fn golden_checkpoint() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../references/tests/goldens/llama-gqa")
}

/// Two prompts short enough for quick runs, long enough to be judged.
pub(crate) const PROMPTS: &str = "{\"id\":\"a\",\"token_ids\":[1,5,9,200,31,77,12,300,4,8]}\n{\"id\":\"b\",\"token_ids\":[2,4,6,8,10,12,14,16,18]}\n";
