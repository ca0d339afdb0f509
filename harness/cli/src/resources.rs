//! What is compiled in, and the files that take its place.

use std::{fs, path::Path};

use fidelity_device::import::BUILT_IN;
use fidelity_trace::{Prompt, Registry, parse_prompts, write_atomically};
use serde::{Deserialize, Serialize};

use crate::error::CliError;

const CHECKPOINTS: &str = include_str!("../../../checkpoints.toml");

const PROMPTS: [(&str, &str); 4] = [
    ("default", include_str!("../../../prompts/default.txt")),
    ("calibration", include_str!("../../../prompts/calibration.txt")),
    ("demo", include_str!("../../../prompts/demo.txt")),
    ("demo-calibration", include_str!("../../../prompts/demo-calibration.txt")),
];

const RECIPES: [(&str, &str); 6] = [
    ("default", include_str!("../../../recipes/default.alls")),
    ("hailo-llm", include_str!("../../../recipes/hailo-llm.alls")),
    ("hailo-llm-reduced", include_str!("../../../recipes/hailo-llm-reduced.alls")),
    ("a16w8", include_str!("../../../recipes/a16w8.alls")),
    ("a8w8", include_str!("../../../recipes/a8w8.alls")),
    ("a8w4", include_str!("../../../recipes/a8w4.alls")),
];

/// Tiny checkpoints with random weights that the self-test of the diagnosis is run on, beside the demo: what the demo does not
/// have is in one of them. Name, config.json, model.safetensors.
pub(crate) const TINY: [(&str, &[u8], &[u8]); 4] = [
    (
        "qwen2-window",
        include_bytes!("../../../references/tests/goldens/qwen2-window/config.json"),
        include_bytes!("../../../references/tests/goldens/qwen2-window/model.safetensors"),
    ),
    (
        "qwen3",
        include_bytes!("../../../references/tests/goldens/qwen3/config.json"),
        include_bytes!("../../../references/tests/goldens/qwen3/model.safetensors"),
    ),
    (
        "gpt2",
        include_bytes!("../../../references/tests/goldens/gpt2/config.json"),
        include_bytes!("../../../references/tests/goldens/gpt2/model.safetensors"),
    ),
    (
        "llama-rope-yarn",
        include_bytes!("../../../references/tests/goldens/llama-rope-yarn/config.json"),
        include_bytes!("../../../references/tests/goldens/llama-rope-yarn/model.safetensors"),
    ),
];

/// A text and where it came from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resource {
    /// Name without folder and extension.
    pub(crate) name: String,
    /// The file, or `built-in NAME`.
    pub(crate) origin: String,
    pub(crate) text: String,
}

/// checkpoints.toml of the working directory, else the one compiled in.
pub(crate) fn registry() -> Result<Registry, CliError> {
    let path = Path::new("checkpoints.toml");
    let text = if path.exists() { read(path)? } else { CHECKPOINTS.to_owned() };
    Ok(Registry::parse(&text, "checkpoints.toml")?)
}

/// A recipe by name or file.
pub(crate) fn recipe(name: &str) -> Result<Resource, CliError> {
    find("--recipe", name, "recipes", "alls", &RECIPES)
}

/// A map of dumps by name or file.
pub(crate) fn map(name: &str) -> Result<Resource, CliError> {
    find("--map", name, "maps", "toml", &BUILT_IN)
}

/// Prompts by name or file.
pub(crate) fn prompts(flag: &'static str, name: &str) -> Result<(Resource, Vec<Prompt>), CliError> {
    let resource = find(flag, name, "prompts", "txt", &PROMPTS)?;
    let prompts = parse_prompts(&resource.text, &resource.origin)?;
    Ok((resource, prompts))
}

pub(crate) fn recipe_names() -> impl Iterator<Item = &'static str> {
    RECIPES.iter().map(|(name, _)| *name)
}

pub(crate) fn prompt_names() -> impl Iterator<Item = &'static str> {
    PROMPTS.iter().map(|(name, _)| *name)
}

fn find(
    flag: &'static str,
    name: &str,
    folder: &str,
    extension: &str,
    built_in: &[(&str, &str)],
) -> Result<Resource, CliError> {
    let given = Path::new(name);
    let overriding = Path::new(folder).join(format!("{name}.{extension}"));
    let file = [given, overriding.as_path()].into_iter().find(|path| path.is_file());
    if let Some(path) = file {
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(Resource { name: stem, origin: path.display().to_string(), text: read(path)? });
    }
    match built_in.iter().find(|(known, _)| *known == name) {
        Some((_, text)) => {
            Ok(Resource { name: name.to_owned(), origin: format!("built-in {name}"), text: (*text).to_owned() })
        }
        None => {
            let known = built_in.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            Err(CliError::NoResource { flag, name: name.to_owned(), known })
        }
    }
}

/// Writes a file whole or not at all.
pub(crate) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), CliError> {
    write_atomically(path, bytes.as_ref()).map_err(|source| CliError::Io {
        action: "write",
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn read(path: &Path) -> Result<String, CliError> {
    fs::read_to_string(path).map_err(|source| CliError::Read { path: path.to_owned(), source })
}
