//! What a failed call says.

use std::fmt;

use crate::Status;

/// Where a call failed. Numbers are those of `cpp/shim.h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Before the library was called.
    Arguments,
    /// Looking for devices.
    Scan,
    /// Opening a device.
    Open,
    /// Asking a device what it is.
    DeviceInfo,
    /// Sending a HEF and reading its network group.
    CreateModel,
    /// Setting a stream's format.
    Format,
    /// Configuring a network group.
    Configure,
    /// Allocating buffers.
    Allocate,
    /// Binding buffers.
    Bindings,
    /// Waiting until a run is accepted.
    Ready,
    /// Handing a run over.
    Submit,
    /// Waiting for a run's end.
    Wait,
    /// Setting or moving the offset of the KV cache.
    Cache,
    /// Shutting a network group down.
    Shutdown,
    /// Reading a HEF on the host.
    Hef,
    /// Anywhere: C++ threw.
    Exception,
    /// Comparing versions of library, headers and this crate.
    Versions,
}

impl Step {
    /// Of `fid_error`; what it does not number can only be thrown.
    #[cfg_attr(not(any(feature = "hailo", test)), expect(dead_code, reason = "errors come from the library"))]
    pub(crate) const fn from_number(number: i32) -> Self {
        match number {
            1 => Self::Arguments,
            2 => Self::Scan,
            3 => Self::Open,
            4 => Self::DeviceInfo,
            5 => Self::CreateModel,
            6 => Self::Format,
            7 => Self::Configure,
            8 => Self::Allocate,
            9 => Self::Bindings,
            10 => Self::Ready,
            11 => Self::Submit,
            12 => Self::Wait,
            13 => Self::Cache,
            14 => Self::Shutdown,
            15 => Self::Hef,
            _ => Self::Exception,
        }
    }

    /// As in `while opening the device`.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Arguments => "before calling HailoRT",
            Self::Scan => "while looking for devices",
            Self::Open => "while opening the device",
            Self::DeviceInfo => "while asking the device what it is",
            Self::CreateModel => "while sending the HEF",
            Self::Format => "while setting a stream's format",
            Self::Configure => "while configuring the network group",
            Self::Allocate => "while allocating buffers",
            Self::Bindings => "while binding buffers",
            Self::Ready => "while waiting for the device to accept a run",
            Self::Submit => "while submitting a run",
            Self::Wait => "while waiting for a run to end",
            Self::Cache => "while setting the offset of the KV cache",
            Self::Shutdown => "while shutting the network group down",
            Self::Hef => "while reading the HEF",
            Self::Exception => "in an exception that HailoRT threw",
            Self::Versions => "while comparing versions",
        }
    }
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// What HailoRT says.
    pub status: Status,
    /// Where.
    pub step: Step,
    /// What was tried, on what.
    pub detail: String,
}

impl Error {
    /// What may help in this place, beyond what is known of the status. Calls that send or configure a HEF have 45 s by default.
    pub fn advice(&self) -> Option<&'static str> {
        let sends = matches!(self.step, Step::CreateModel | Step::Configure);
        (sends && self.status == Status::TIMEOUT).then_some(
            "a large HEF may need HAILO_REQUEST_TIMEOUT_SECONDS (with ssh: 'ssh pi5 env HAILO_REQUEST_TIMEOUT_SECONDS=120 fidelity-worker')",
        )
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.status, self.step.description(), self.detail)?;
        if let Some(advice) = self.advice() {
            write!(f, "; {advice}")?;
        }
        self.status.cause().map_or(Ok(()), |cause| write!(f, " ({cause})"))
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_says_status_number_place_and_likely_cause() {
        let error = Error { status: Status::new(61), step: Step::CreateModel, detail: "network group tbt".into() };
        assert_eq!(
            error.to_string(),
            "NOT_FOUND (61) while sending the HEF: network group tbt (no network group, stream or resource of that name, or a stream \
             without a buffer)"
        );
    }

    #[test]
    fn a_timeout_of_sending_or_configuring_names_the_setting_that_helps() {
        let told = |status, step| {
            let error = Error { status: Status::new(status), step, detail: "network group tbt".into() };
            error
                .to_string()
                .contains("network group tbt; a large HEF may need HAILO_REQUEST_TIMEOUT_SECONDS (with ssh: ")
        };
        assert!(told(4, Step::CreateModel) && told(4, Step::Configure));
        assert!(!told(4, Step::Wait) && !told(8, Step::Configure));
    }

    #[test]
    fn steps_have_the_numbers_of_the_c_header() {
        let header = include_str!("../cpp/shim.h");
        let numbers: Vec<i32> = header
            .lines()
            .filter_map(|line| line.trim().strip_prefix("FID_STEP_"))
            .filter_map(|line| line.split_once(" = ").and_then(|(_, number)| number.trim_end_matches(',').parse().ok()))
            .collect();
        assert_eq!(numbers, (0..=16).collect::<Vec<_>>());
        let steps: Vec<_> = numbers[1..].iter().map(|number| Step::from_number(*number)).collect();
        let names = [
            "Arguments",
            "Scan",
            "Open",
            "DeviceInfo",
            "CreateModel",
            "Format",
            "Configure",
            "Allocate",
            "Bindings",
            "Ready",
            "Submit",
            "Wait",
            "Cache",
            "Shutdown",
            "Hef",
            "Exception",
        ];
        assert_eq!(steps.iter().map(|step| format!("{step:?}")).collect::<Vec<_>>(), names);
    }
}
