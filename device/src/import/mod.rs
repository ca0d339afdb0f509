//! Dumps of other tools (`.npz`, `.npy`, `.safetensors`) into a trace, as a map says.
//!
//! A [`Map`] names which array is which site, what its axes are, and how its rows were fed. Nothing is guessed: what does not
//! fit is refused with what would fit, and no trace is left behind. Files are hostile: every size in them is checked against
//! the file before anything is sized by it. docs/IMPORT.md describes the map.

mod archive;
mod arrange;
mod array;
mod assemble;
mod axes;
mod check;
mod correlate;
mod error;
mod feeding;
mod fit;
mod map;
mod npy;
mod plan;
mod prompts;
mod raw_map;
mod resolve;
mod shapes;

pub use assemble::{Imported, import};
pub use check::Check;
pub use error::ImportError;
pub use map::{BUILT_IN, Map};
pub use plan::{Import, ImportPrompt};
pub use shapes::ModelShape;
