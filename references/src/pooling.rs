//! How an encoder's token rows become one row, as sentence-transformers' files say: modules.json and the pooling module's
//! config.json, in the dialect of either version (a flag a mode, or `pooling_mode`).

use std::{
    fmt,
    path::{Component, Path, PathBuf},
};

use candle_core::{DType, Result as CandleResult, Tensor};
use serde_json::{Map, Value, json};

use crate::{CheckpointError, config, keys::Keys, weights::read_bounded};

const MODULES: &str = "modules.json";
/// Where the pooling module's file is if no modules.json says so.
const POOLING_FOLDER: &str = "1_Pooling";
const MAX_BYTES: u64 = 1 << 20;

/// Which token rows count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PoolingMode {
    /// All, padding excepted: their mean.
    #[default]
    Mean,
    /// The first, `[CLS]`.
    Cls,
}

/// How token rows become one row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pooling {
    /// Which rows count.
    pub mode: PoolingMode,
    /// The row is divided by its length.
    pub normalised: bool,
    /// The checkpoint's files say so; without such files it is the mean, not normalised.
    pub stated: bool,
}

impl fmt::Display for Pooling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.mode {
            PoolingMode::Mean => "mean of the tokens",
            PoolingMode::Cls => "first token",
        })?;
        f.write_str(if self.normalised { ", divided by its length" } else { "" })?;
        f.write_str(if self.stated { "" } else { " (the default: no modules.json)" })
    }
}

impl Pooling {
    /// One row `[1, hidden]` of token rows `[token, hidden]`.
    pub(crate) fn apply(self, rows: &Tensor) -> CandleResult<Tensor> {
        let pooled = match self.mode {
            PoolingMode::Mean => rows.mean_keepdim(0)?,
            PoolingMode::Cls => rows.narrow(0, 0, 1)?,
        };
        if !self.normalised {
            return Ok(pooled);
        }
        let length = pooled.to_dtype(DType::F64)?.sqr()?.sum_all()?.sqrt()?.to_scalar::<f64>()?;
        pooled / length.max(1e-12)
    }

    /// Reads what a checkpoint folder says; the default where it says nothing.
    pub(crate) fn read(folder: &Path, hidden: usize) -> Result<Self, CheckpointError> {
        let path = folder.join(MODULES);
        if path.exists() {
            return of_modules(&path, folder, hidden);
        }
        let alone = folder.join(POOLING_FOLDER).join("config.json");
        match alone.exists() {
            true => Ok(Self { mode: mode(&alone, hidden)?, normalised: false, stated: true }),
            false => Ok(Self::default()),
        }
    }
}

/// The folders that modules.json names besides the checkpoint's own, each with a config.json of a module, as far as it can be
/// understood: fetching is not judging.
pub(crate) fn module_folders(modules: &Path) -> Vec<String> {
    let list =
        read_bounded(modules, MAX_BYTES).ok().and_then(|bytes| serde_json::from_slice::<Vec<Value>>(&bytes).ok());
    let paths = list.into_iter().flatten().filter_map(|module| module["path"].as_str().map(str::to_owned));
    paths.filter(|path| !path.is_empty()).collect()
}

fn of_modules(path: &Path, folder: &Path, hidden: usize) -> Result<Pooling, CheckpointError> {
    let file = path.display().to_string();
    let wrong = |reason: String| CheckpointError::File { file: file.clone(), reason };
    let list: Vec<Map<String, Value>> = serde_json::from_slice(&read_bounded(path, MAX_BYTES)?)
        .map_err(|error| wrong(format!("not a list of modules: {error}; download the file again")))?;
    let modules = list.into_iter().enumerate().map(|(index, object)| Module::take(&file, index, object));
    let modules = modules.collect::<Result<Vec<_>, _>>()?;
    let kinds: Vec<&str> = modules.iter().map(|module| module.kind.as_str()).collect();
    let (pooling, normalise) = match kinds[..] {
        ["Transformer", "Pooling"] => (&modules[1], None),
        ["Transformer", "Pooling", "Normalize"] => (&modules[1], Some(&modules[2])),
        _ => {
            return Err(wrong(format!(
                "the modules are {}, expected Transformer, Pooling and maybe Normalize: others are not supported",
                kinds.join(", ")
            )));
        }
    };
    if !modules[0].path.as_os_str().is_empty() {
        let place = modules[0].path.display();
        return Err(wrong(format!(
            "the Transformer is in `{place}`, expected in this folder itself; give that folder"
        )));
    }
    let config = |module: &Module| folder.join(&module.path).join("config.json");
    if let Some(normalise) = normalise.map(config).filter(|path| path.exists()) {
        check_normalise(&normalise)?;
    }
    Ok(Pooling { mode: mode(&config(pooling), hidden)?, normalised: normalise.is_some(), stated: true })
}

/// An entry of modules.json.
struct Module {
    /// The class without its package, which moved between versions.
    kind: String,
    path: PathBuf,
}

impl Module {
    fn take(file: &str, index: usize, object: Map<String, Value>) -> Result<Self, CheckpointError> {
        let mut keys = Keys::new(file, &format!("[{index}]."), object);
        let class = keys.text("type")?.ok_or_else(|| keys.wrong("type", None, "a module's class"))?;
        let path = keys.text("path")?.unwrap_or_default();
        let inside = Path::new(&path).components().all(|part| matches!(part, Component::Normal(_)));
        if !inside || path.contains('\\') {
            return Err(keys.wrong("path", Some(&Value::from(path)), "a folder inside the checkpoint's"));
        }
        keys.finish(&["idx", "name", "kwargs"])?;
        let kind = class.rsplit('.').next().unwrap_or_default().to_owned();
        Ok(Self { kind, path: path.into() })
    }
}

fn keys_of(path: &Path) -> Result<Keys, CheckpointError> {
    let file = path.display().to_string();
    Ok(Keys::new(&file, "", config::object(&read_bounded(path, MAX_BYTES)?, &file)?))
}

/// Only the pooled row is normalised here, not every token's.
fn check_normalise(path: &Path) -> Result<(), CheckpointError> {
    let mut keys = keys_of(path)?;
    for key in ["module_input_name", "module_output_name"] {
        keys.only(key, &json!("sentence_embedding"))?;
    }
    keys.finish(&[])
}

/// The flags of the older dialect, in the order in which several would stand side by side.
const FLAGS: [(&str, &str); 6] = [
    ("pooling_mode_cls_token", "cls"),
    ("pooling_mode_max_tokens", "max"),
    ("pooling_mode_mean_tokens", "mean"),
    ("pooling_mode_mean_sqrt_len_tokens", "mean_sqrt_len_tokens"),
    ("pooling_mode_weightedmean_tokens", "weightedmean"),
    ("pooling_mode_lasttoken", "lasttoken"),
];

/// Without any flag set it is the mean; `pooling_mode` wins over flags.
fn mode(path: &Path, hidden: usize) -> Result<PoolingMode, CheckpointError> {
    let mut keys = keys_of(path)?;
    for key in ["word_embedding_dimension", "embedding_dimension"] {
        keys.only(key, &json!(hidden))?;
    }
    let mut flagged = Vec::new();
    for (key, name) in FLAGS {
        if keys.boolean(key)?.unwrap_or(false) {
            flagged.push((key, name));
        }
    }
    let stated = keys.take("pooling_mode");
    // Of text put before every prompt, of which there is none here.
    keys.ignore(&["include_prompt"]);
    let expected = "\"mean\" or \"cls\": other pooling is not supported";
    let name = match (&stated, &flagged[..]) {
        (Some(Value::String(name)), _) => name.as_str(),
        (Some(Value::Array(list)), _) if list.len() == 1 => list[0].as_str().unwrap_or_default(),
        (Some(_), _) => "",
        (None, []) => "mean",
        (None, [(_, name)]) => name,
        (None, [_, (key, _), ..]) => {
            return Err(keys.wrong(key, Some(&json!(true)), "false: several modes side by side are not supported"));
        }
    };
    let mode = match name {
        "mean" => PoolingMode::Mean,
        "cls" => PoolingMode::Cls,
        _ => {
            let key = flagged.first().filter(|_| stated.is_none()).map_or("pooling_mode", |(key, _)| key);
            return Err(keys.wrong(key, Some(stated.as_ref().unwrap_or(&json!(true))), expected));
        }
    };
    keys.finish(&[])?;
    Ok(mode)
}
