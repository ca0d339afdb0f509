//! Which arm is asked for.

use std::path::PathBuf;

use crate::{args::ArmArgs, error::CliError};

/// The arm that is asked for.
#[derive(PartialEq, Eq)]
pub(crate) enum Device {
    Emulator,
    Hailo,
    Replay(PathBuf),
}

impl Device {
    /// What `--device` says. Flags of another arm are refused, never ignored.
    pub(crate) fn asked(asked: &ArmArgs) -> Result<Self, CliError> {
        let device = match asked.device.split_once('=') {
            None if asked.device == "emulator" => Self::Emulator,
            None if asked.device == "hailo" => Self::Hailo,
            None if asked.device == "replay" => return Err(CliError::NoReplayTrace(asked.device.clone())),
            Some(("replay", "")) => return Err(CliError::NoReplayTrace(asked.device.clone())),
            Some(("replay", trace)) => Self::Replay(trace.into()),
            _ => return Err(CliError::Device(asked.device.clone())),
        };
        let hailo = &asked.hailo;
        // A recipe is that of an emulator beside the device.
        let recipe = asked.recipe.as_deref();
        let of_emulator = [
            ("--recipe none", recipe == Some("none")),
            ("--fault", !asked.fault.is_empty()),
            ("--first-position", asked.first_position.is_some()),
            ("--calibration without --recipe", asked.calibration.is_some() && recipe.is_none()),
            ("--layer-names without --recipe", asked.layer_names.is_some() && recipe.is_none()),
        ];
        let of_hailo = [
            ("--hef", hailo.hef.is_some()),
            ("--device-id", hailo.device_id.is_some()),
            ("--wait", hailo.wait.is_some()),
            ("--prefill-rows", hailo.prefill_rows.is_some()),
            ("--step-timeout", hailo.step_timeout.is_some()),
            ("--accept-failed-audit", hailo.accept_failed_audit),
        ];
        let given = |flags: &[(&'static str, bool)]| flags.iter().find(|(_, given)| *given).map(|(flag, _)| *flag);
        let foreign = match &device {
            Self::Emulator => given(&of_hailo),
            Self::Hailo => given(&of_emulator),
            Self::Replay(_) => given(&of_emulator).or_else(|| given(&of_hailo)),
        };
        match foreign {
            Some(flag) => Err(CliError::ForAnotherDevice { flag, device: device.name() }),
            None => Ok(device),
        }
    }

    const fn name(&self) -> &'static str {
        match self {
            Self::Emulator => "emulator",
            Self::Hailo => "hailo",
            Self::Replay(_) => "replay",
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::args::HailoArgs;

    fn asked(device: &str) -> ArmArgs {
        let hailo = HailoArgs::default();
        ArmArgs {
            device: device.into(),
            recipe: None,
            fault: Vec::new(),
            calibration: None,
            first_position: None,
            layer_names: None,
            hailo,
        }
    }

    #[test]
    fn a_device_is_what_was_asked_for_or_an_error() {
        assert!(matches!(Device::asked(&asked("emulator")), Ok(Device::Emulator)));
        assert!(matches!(Device::asked(&asked("hailo")), Ok(Device::Hailo)));
        assert!(matches!(Device::asked(&asked("replay=a=b")), Ok(Device::Replay(path)) if path == Path::new("a=b")));
        for wrong in ["", "hailo=x", "replay", "replay=", "emulator=x", "Replay=x"] {
            assert!(Device::asked(&asked(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn flags_of_another_arm_are_refused() {
        let with = |device, recipe: Option<&str>, fault: &[&str], hef: Option<&str>| {
            let hailo = HailoArgs { hef: hef.map(Into::into), ..HailoArgs::default() };
            let fault = fault.iter().map(ToString::to_string).collect();
            Device::asked(&ArmArgs { recipe: recipe.map(Into::into), fault, hailo, ..asked(device) }).is_ok()
        };
        for (device, fault_goes, hef_goes) in
            [("emulator", true, false), ("hailo", false, true), ("replay=x", false, false)]
        {
            assert!(with(device, Some("a8w8"), &[], None), "{device}");
            assert_eq!(with(device, Some("none"), &[], None), device == "emulator", "{device}");
            assert_eq!(with(device, None, &["gqa_tile"], None), fault_goes, "{device}");
            assert_eq!(with(device, None, &[], Some("x")), hef_goes, "{device}");
        }
    }
}
