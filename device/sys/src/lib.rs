//! HailoRT's InferModel API for the rest of the program, and the only crate with `unsafe`.
//!
//! `cpp/` is a C surface over the C++ library; this crate is a safe one over that. Feature `hailo` compiles both against an installed
//! HailoRT; without it only plain data is here: what a status means ([`status`]), and what the API speaks in.
//!
//! A run that timed out is not over: HailoRT cancels nothing, a late reply still writes into the buffers, and destroying a configured model
//! with a job in flight is a use after free inside libhailort 5.2.0. Its `Group` is therefore poisoned: it refuses
//! everything, gives no access to its buffers and is leaked. The process must then end through `end_process`.

mod error;
pub mod status;
mod types;

#[cfg(feature = "hailo")]
mod call;
#[cfg(feature = "hailo")]
mod device;
#[cfg(feature = "hailo")]
mod group;
#[cfg(feature = "hailo")]
pub mod hef;
#[cfg(feature = "hailo")]
mod model;
#[cfg(feature = "hailo")]
mod raw;

pub use error::{Error, Step};
pub use status::{Retry, Status};
pub use types::{DeviceInfo, Direction, FormatType, OpenOptions, PowerMode, Stream, Version, Versions};

#[cfg(feature = "hailo")]
pub use {
    device::{Device, end_process, scan, versions},
    group::Group,
    model::Model,
};
