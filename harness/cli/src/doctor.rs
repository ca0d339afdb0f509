//! What a run on a device needs: findings, each with its remedy.

use fidelity_device::{
    chip::Status,
    hef::Description,
    worker::{DeviceState, Inventory},
};
use fidelity_reports::printable;
use serde::Serialize;

/// How a finding stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum State {
    Ok,
    /// May matter.
    Warning,
    /// A run on a device cannot go well.
    Missing,
}

const IN_USE: &str = "wait for it with --wait, or end its owner";

/// One line of the doctor's.
#[derive(Debug, Serialize)]
pub(crate) struct Line {
    pub(crate) what: &'static str,
    pub(crate) state: State,
    pub(crate) found: String,
    /// What to do about it; empty where nothing is to be done.
    pub(crate) remedy: String,
}

impl Line {
    pub(crate) fn ok(what: &'static str, found: impl Into<String>) -> Self {
        Self { what, state: State::Ok, found: found.into(), remedy: String::new() }
    }

    pub(crate) fn warning(what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what, state: State::Warning, found: found.into(), remedy: remedy.into() }
    }

    pub(crate) fn missing(what: &'static str, found: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { what, state: State::Missing, found: found.into(), remedy: remedy.into() }
    }
}

/// What a worker's machine has.
pub(crate) fn of_inventory(inventory: &Inventory) -> Vec<Line> {
    if !inventory.has_library {
        let remedy = "install HailoRT 5.1 or later there and build fidelity with `--features hailo`";
        return vec![Line::missing("HailoRT", "the worker was built without it", remedy)];
    }
    let mut lines = vec![library(inventory), driver(inventory)];
    lines.extend(inventory.errors.iter().map(|error| {
        Line::missing("HailoRT", printable(&error.to_string()), "see hailort.log in the worker's folder, and dmesg")
    }));
    lines.extend(devices(inventory));
    lines.extend(inventory.rivals.iter().map(|(name, pid)| {
        let found = format!("{} runs (pid {pid}) and fights for the device's KV-cache", printable(name));
        Line::warning("other programs", found, "stop it before a run")
    }));
    lines
}

fn library(inventory: &Inventory) -> Line {
    match &inventory.versions {
        None => Line::missing("HailoRT", "it does not say its version", "install HailoRT 5.1 or later again"),
        Some(versions) if versions.library != versions.headers => {
            let (library, headers) = (printable(&versions.library), printable(&versions.headers));
            let found = format!("version {library}, but the worker was built against the headers of {headers}");
            Line::missing("HailoRT", found, "build fidelity again on that machine")
        }
        Some(versions) => Line::ok("HailoRT", format!("version {}", printable(&versions.library))),
    }
}

/// The library refuses every other version of the driver.
fn driver(inventory: &Inventory) -> Line {
    let library = inventory.versions.as_ref().map(|versions| versions.library.as_str());
    match (&inventory.driver, library) {
        (None, _) => Line::missing(
            "driver",
            "no Hailo kernel module is loaded",
            "install the PCIe driver of HailoRT's version and reboot",
        ),
        (Some((module, version)), Some(library)) if version != library => {
            let (module, version) = (printable(module), printable(version));
            let found = format!("{module} {version}, but HailoRT is {}", printable(library));
            Line::missing("driver", found, "install the driver of HailoRT's version and reboot")
        }
        (Some((module, version)), _) => Line::ok("driver", format!("{} {}", printable(module), printable(version))),
    }
}

fn devices(inventory: &Inventory) -> Vec<Line> {
    if inventory.devices.is_empty() {
        let remedy = "is it plugged in? `lspci -d 1e60:` lists what the PCIe bus sees; dmesg says what the driver does";
        return vec![Line::missing("devices", "none answers", remedy)];
    }
    let library = inventory.versions.as_ref().map(|versions| versions.library.as_str());
    let of = |(id, state): &(String, DeviceState)| {
        let id = printable(id);
        match state {
            DeviceState::Free(info) => {
                let firmware = printable(&info.firmware);
                let found = format!("{id}: {} with firmware {firmware}, free", printable(&info.architecture));
                match library.filter(|library| release(library) != release(&info.firmware)) {
                    None => Line::ok("devices", found),
                    Some(library) => {
                        let found = format!("{found}; HailoRT is {}", printable(library));
                        Line::warning("devices", found, "install the firmware of HailoRT's version")
                    }
                }
            }
            DeviceState::InUse(pid) => {
                let owner = pid.map_or_else(|| "another process".to_owned(), |pid| format!("pid {pid}"));
                Line::warning("devices", format!("{id}: in use by {owner}"), IN_USE)
            }
            DeviceState::Failed(error) if error.status == Status::DEVICE_IN_USE => {
                Line::warning("devices", format!("{id}: in use by another program"), IN_USE)
            }
            DeviceState::Failed(error) => {
                let found = format!("{id}: {}", printable(&error.to_string()));
                Line::missing("devices", found, "reset it (power it off and on), or end the program that has it")
            }
        }
    };
    let mut lines: Vec<Line> = inventory.devices.iter().map(of).collect();
    if !inventory.devices.iter().any(|(_, state)| matches!(state, DeviceState::Free(_))) {
        lines.push(Line::missing("devices", "none is free", IN_USE));
    }
    lines
}

/// Major and minor number of a version.
fn release(version: &str) -> Vec<&str> {
    version.split(['.', ' ', '-']).take(2).collect()
}

/// Whether a compiled model fits the devices.
pub(crate) fn of_hef(hef: &Description, inventory: Option<&Inventory>) -> Line {
    let compatible = &hef.target.compatible;
    let names = compatible.join(", ");
    let found = format!("compiled for {}", if names.is_empty() { "no device that is known" } else { &names });
    let devices: Vec<&str> = inventory.map_or_else(Vec::new, |inventory| {
        let free = inventory.devices.iter().filter_map(|(_, state)| match state {
            DeviceState::Free(info) => Some(info.architecture.as_str()),
            DeviceState::InUse(_) | DeviceState::Failed(_) => None,
        });
        free.collect()
    });
    match devices.iter().find(|device| !compatible.iter().any(|name| name.eq_ignore_ascii_case(device))) {
        Some(device) => {
            let found = format!("{found}, the device is a {}", printable(device));
            Line::missing("HEF", found, "compile it for this device")
        }
        None if devices.is_empty() => Line::warning("HEF", found, "no device answers that it could be held against"),
        None => Line::ok("HEF", found),
    }
}

#[cfg(test)]
mod tests {
    use fidelity_device::chip::{ChipError, DeviceInfo, Status, Versions};

    use super::*;

    fn sound() -> Inventory {
        let info = DeviceInfo {
            id: "0000:01:00.0".into(),
            architecture: "HAILO10H".into(),
            firmware: "5.2.0".into(),
            ..DeviceInfo::default()
        };
        Inventory {
            worker: "0.1.0".into(),
            has_library: true,
            versions: Some(Versions { library: "5.2.0".into(), headers: "5.2.0".into() }),
            driver: Some(("hailo1x_pci".into(), "5.2.0".into())),
            devices: vec![(info.id.clone(), DeviceState::Free(info))],
            ..Inventory::default()
        }
    }

    /// The findings that are not well.
    fn wrong(change: impl FnOnce(&mut Inventory)) -> Vec<(State, String)> {
        let mut inventory = sound();
        change(&mut inventory);
        let lines = of_inventory(&inventory).into_iter().filter(|line| line.state != State::Ok);
        lines
            .inspect(|line| assert!(!line.remedy.is_empty(), "{line:?}"))
            .map(|line| (line.state, line.found))
            .collect()
    }

    #[test]
    fn a_sound_machine_has_nothing_to_mend() {
        assert_eq!(wrong(|_| ()), []);
    }

    #[test]
    fn each_fault_is_named_and_has_a_remedy() {
        let said = |change: fn(&mut Inventory), state, what: &str| {
            let found = wrong(change);
            assert!(
                found.len() == 1 && found[0].0 == state && found[0].1.contains(what),
                "{found:?} does not say {what}"
            );
        };
        said(|it| it.has_library = false, State::Missing, "built without");
        said(|it| it.devices.clear(), State::Missing, "none answers");
        said(|it| it.driver = None, State::Missing, "no Hailo kernel module");
        said(
            |it| it.driver = Some(("hailo1x_pci".into(), "5.1.1".into())),
            State::Missing,
            "5.1.1, but HailoRT is 5.2.0",
        );
        said(|it| it.rivals.push(("hailo-ollama".into(), 7)), State::Warning, "hailo-ollama runs (pid 7)");
        let busy = wrong(|it| it.devices[0].1 = DeviceState::InUse(Some(42)));
        assert_eq!(busy[0], (State::Warning, "0000:01:00.0: in use by pid 42".into()));
        assert_eq!(busy[1], (State::Missing, "none is free".into()));
        let headers =
            |it: &mut Inventory| it.versions = Some(Versions { library: "5.2.0".into(), headers: "5.1.0".into() });
        said(headers, State::Missing, "built against the headers of 5.1.0");
        let failed = |it: &mut Inventory| {
            let error =
                ChipError { status: Status::COMMUNICATION_CLOSED, step: "while opening".into(), detail: String::new() };
            it.devices[0].1 = DeviceState::Failed(error);
        };
        let failed = wrong(failed);
        assert!(failed.iter().all(|(state, _)| *state == State::Missing), "{failed:?}");
        assert!(failed[0].1.contains("COMMUNICATION_CLOSED"), "{failed:?}");
        let firmware = |it: &mut Inventory| {
            if let DeviceState::Free(info) = &mut it.devices[0].1 {
                info.firmware = "5.0.1".into();
            }
        };
        said(firmware, State::Warning, "firmware 5.0.1");
    }
}
