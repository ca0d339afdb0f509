//! The checkpoint compiled into the binary; `references/demo/README.md` says how it was made.

pub(crate) const CONFIG: &[u8] = include_bytes!("../demo/config.json");
pub(crate) const TOKENIZER: &[u8] = include_bytes!("../demo/tokenizer.json");
pub(crate) const WEIGHTS: &[u8] = include_bytes!("../demo/model.safetensors");
