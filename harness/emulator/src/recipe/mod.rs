//! Recipes: model scripts (`.alls`), read strictly. docs/RECIPES.md says what each command does here.

mod arguments;
mod commands;
mod error;
mod layers;
mod names;
mod plan;
mod precision;
mod promote;
mod script;
mod select;
#[cfg(test)]
mod tests;

use fidelity_references::Architecture;
use fidelity_trace::hex;
use sha2::{Digest, Sha256};

use commands::Setting;
pub use error::{Fault, RecipeError};
pub use names::{LayerNames, LayerNamesError};
pub use plan::{Plan, WeightGrid};
pub use precision::Precision;
pub use promote::Promotions;

/// A script larger than this is refused.
const MOST_BYTES: usize = 1 << 20;

/// How a checkpoint is quantised, whatever its architecture.
#[derive(Clone, Debug, PartialEq)]
pub struct Recipe {
    /// Its name: the file's, without `.alls`.
    pub name: String,
    /// SHA-256 of its text.
    pub sha256: String,
    /// Where it came from, for errors.
    file: String,
    text: String,
    settings: Vec<Setting>,
}

impl Recipe {
    /// Reads a model script. `name` becomes the recipe's name, `file` names it in errors.
    ///
    /// # Errors
    /// Something that is not understood, at its line and column.
    pub fn parse(text: &str, name: &str, file: &str) -> Result<Self, RecipeError> {
        let read = || {
            if text.len() > MOST_BYTES {
                return Err(Fault::TooLarge { bytes: text.len(), most: MOST_BYTES }.at(0..0));
            }
            let statements = script::parse(text)?;
            commands::refuse_empty(&statements)?;
            commands::settings(&statements)
        };
        let settings = read().map_err(|problem| problem.in_file(file, text))?;
        let sha256 = hex(&Sha256::digest(text.as_bytes()));
        Ok(Self { name: name.to_owned(), sha256, file: file.to_owned(), text: text.to_owned(), settings })
    }

    /// The script.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What the recipe says of each layer of a network; `names` maps a compiler's own layer names.
    ///
    /// # Errors
    /// A layer that the network does not have, or a weight group that does not fit, at its line and column.
    pub fn plan(&self, architecture: &Architecture, names: &LayerNames) -> Result<Plan, RecipeError> {
        plan::plan(&self.settings, architecture, names).map_err(|problem| problem.in_file(&self.file, &self.text))
    }
}
