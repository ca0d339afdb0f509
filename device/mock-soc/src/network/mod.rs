//! The network that a mock HEF holds, computed in float32: a decoder of the Llama family with six inputs and a ring of cache
//! entries. Written apart from `references`, whose results it is compared with: nothing here may be taken from there.

mod decoder;
mod geometry;
mod grid;
mod operations;
mod ring;
mod weights;

pub(crate) use decoder::{Decoder, Rope, Step};
pub use geometry::{Dimensions, MaskSense, Rotation};
pub(crate) use geometry::{GroupPlan, InputNames, Plan};
pub(crate) use grid::{Grid, largest_code};
pub(crate) use ring::{Caches, Window};
pub(crate) use weights::Weights;
pub use weights::WeightsError;
