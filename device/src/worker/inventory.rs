//! What is installed on this machine, for `doctor`.

use std::{fs, path::Path};

use super::{
    lock::{DeviceLock, LockError},
    message::{DeviceState, Inventory},
};
use crate::chip::Library;

/// Names of the driver's kernel module: of Hailo-10 and 15, and of Hailo-8.
const MODULES: [&str; 2] = ["hailo1x_pci", "hailo_pci"];
/// Programs that use the device beside us without a lock.
const RIVALS: [&str; 2] = ["hailo-ollama", "hailort_server"];

pub(super) fn inventory(library: Option<&dyn Library>, locks: &Path) -> Inventory {
    let mut inventory = Inventory {
        worker: env!("CARGO_PKG_VERSION").into(),
        has_library: library.is_some(),
        driver: driver(),
        rivals: rivals(),
        ..Inventory::default()
    };
    let Some(library) = library else { return inventory };
    match library.versions() {
        Ok(versions) => inventory.versions = Some(versions),
        Err(error) => inventory.errors.push(error),
    }
    match library.scan() {
        Ok(ids) => inventory.devices = ids.into_iter().map(|id| (id.clone(), state(library, locks, &id))).collect(),
        Err(error) => inventory.errors.push(error),
    }
    inventory
}

fn state(library: &dyn Library, locks: &Path, id: &str) -> DeviceState {
    let lock = DeviceLock::take(locks, id);
    if let Err(LockError::Held { pid, .. }) = lock {
        return DeviceState::InUse(pid);
    }
    match library.open(id) {
        Ok(device) => DeviceState::Free(device.info()),
        Err(error) => DeviceState::Failed(error),
    }
}

/// Module and version of the driver, as the kernel says.
pub(super) fn driver() -> Option<(String, String)> {
    MODULES.into_iter().find_map(|module| {
        let version = fs::read_to_string(format!("/sys/module/{module}/version")).ok()?;
        Some((module.to_owned(), crate::text::plain(&version)))
    })
}

fn rivals() -> Vec<(String, u32)> {
    let Ok(processes) = fs::read_dir("/proc") else { return Vec::new() };
    let rivals = processes.flatten().filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let name = fs::read_to_string(entry.path().join("comm")).ok()?;
        let name = name.trim();
        // The kernel keeps 15 characters of a name.
        RIVALS.iter().any(|rival| rival[..rival.len().min(15)] == *name).then(|| (name.to_owned(), pid))
    });
    rivals.collect()
}
