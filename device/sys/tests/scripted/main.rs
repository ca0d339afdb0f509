//! The safe API through the library that this was linked with, against a server that follows a script: the stand-in of `device/standin`, or
//! HailoRT itself (then with FIDELITY_SCRIPTED_DELAY_MS=20, for it loses replies that come too early).

mod device;
mod faults;
mod files;
mod model;
mod run;
mod server;
mod wire;

use std::{fs, path::PathBuf};

use fidelity_hailort_sys::{Device, Direction, Error, FormatType, Group, Model, OpenOptions};
use fidelity_hef_writer::llm_writer::Llm;
use tempfile::TempDir;

use server::Server;

/// Inputs of `Llm::default()`, prefill: mask, embeddings, Q cos, Q sin, K cos, K sin; values.
const INPUT_VALUES: [usize; 6] = [4 * 4 * 16, 4 * 32, 4 * 32, 4 * 32, 4 * 16, 4 * 16];

fn open(server: &Server) -> Result<Device, Error> {
    Device::open(&OpenOptions { device_id: Some(server.address.clone()), group_id: None })
}

/// A small language model: two groups of six inputs and two outputs.
fn hef() -> (TempDir, PathBuf, Vec<u8>) {
    let folder = tempfile::tempdir().expect("a directory");
    let bytes = Llm::default().hef().v3();
    let path = folder.path().join("small.hef");
    fs::write(&path, &bytes).expect("written");
    (folder, path, bytes)
}

fn model(device: &mut Device, group: &str) -> Result<Model, Error> {
    let (_folder, path, _) = hef();
    device.model(&path, group)
}

/// A group as a session configures it.
fn configured(device: &mut Device, group: &str) -> Group {
    let mut model = model(device, group).expect("it is created");
    for index in 2..6 {
        model.set_format(Direction::Input, index, FormatType::Float32).expect("set");
    }
    for index in 0..2 {
        model.set_format(Direction::Output, index, FormatType::Float32).expect("set");
    }
    model.set_kv_cache(true).expect("set");
    model.configure().expect("it is configured")
}
