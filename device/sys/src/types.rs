//! What the API speaks in. Plain data: it compiles without HailoRT.

use std::fmt;

/// A version of three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// 5 of 5.2.0.
    pub major: u32,
    /// 2 of 5.2.0.
    pub minor: u32,
    /// 0 of 5.2.0.
    pub revision: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.revision)
    }
}

/// Which HailoRT this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Versions {
    /// Of the library that was loaded.
    pub library: Version,
    /// Of the headers that this crate was compiled against. Another one than the library's is refused by every call.
    pub headers: Version,
}

/// Which device to open, and how.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OpenOptions {
    /// Its PCIe address; an IPv4 address connects by TCP, which is for tests. None: any free one.
    pub device_id: Option<String>,
    /// Processes that name the same group share a device. None: exclusive use.
    pub group_id: Option<String>,
}

/// What a device says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Its address.
    pub id: String,
    /// `hailo_device_architecture_t`.
    pub architecture: i32,
    /// Version of its firmware.
    pub firmware: Version,
    /// Its firmware is a release.
    pub is_release: bool,
    /// Name of the board.
    pub board_name: String,
    /// Name of the product.
    pub product_name: String,
    /// Serial number; empty where it has none.
    pub serial_number: String,
    /// Part number; empty where it has none.
    pub part_number: String,
}

impl DeviceInfo {
    /// The architecture's name as HailoRT has it, without its prefix.
    pub fn architecture_name(&self) -> &'static str {
        const NAMES: [&str; 8] =
            ["HAILO8_A0", "HAILO8", "HAILO8L", "HAILO15H", "HAILO15L", "HAILO15M", "HAILO10H", "HAILO12L"];
        usize::try_from(self.architecture).ok().and_then(|index| NAMES.get(index)).copied().unwrap_or("unknown")
    }
}

/// A stream's direction, seen from the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Host to device.
    Input,
    /// Device to host.
    Output,
}

/// How the host gives or gets a value. Numbers are those of `hailo_format_type_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatType {
    /// Codes of one byte.
    Uint8,
    /// Codes of two bytes, little-endian.
    Uint16,
    /// Values; HailoRT quantises and dequantises.
    Float32,
}

impl FormatType {
    #[cfg_attr(not(any(feature = "hailo", test)), expect(dead_code, reason = "formats come from the library"))]
    pub(crate) const fn from_number(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Uint8),
            2 => Some(Self::Uint16),
            3 => Some(Self::Float32),
            _ => None,
        }
    }

    /// `hailo_format_type_t`.
    pub const fn number(self) -> i32 {
        match self {
            Self::Uint8 => 1,
            Self::Uint16 => 2,
            Self::Float32 => 3,
        }
    }

    /// Bytes of a value.
    pub const fn size_bytes(self) -> usize {
        match self {
            Self::Uint8 => 1,
            Self::Uint16 => 2,
            Self::Float32 => 4,
        }
    }
}

/// How fast a device runs. Numbers are those of `hailo_power_mode_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerMode {
    /// The default.
    Performance,
    /// Without saving power between runs.
    UltraPerformance,
}

impl PowerMode {
    /// `hailo_power_mode_t`.
    pub const fn number(self) -> i32 {
        match self {
            Self::Performance => 0,
            Self::UltraPerformance => 1,
        }
    }
}

/// A stream of a network group.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// `network/layer`.
    pub name: String,
    /// `[height, width, features]`.
    pub shape: [u32; 3],
    /// What the host uses; the device's own until `Model::set_format`.
    pub format_type: FormatType,
    /// `hailo_format_order_t` of the host's side: 1 NHWC, 3 FCR, 6 NC.
    pub format_order: i32,
    /// Bytes of a frame in the host's format.
    pub frame_size: usize,
    /// Value = (code - zero point) * scale. All four are 0 where a stream has one for each feature.
    pub scale: f32,
    /// Code of 0.
    pub zero_point: f32,
    /// Least and greatest value.
    pub limits: [f32; 2],
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_have_numbers_and_sizes_of_hailort() {
        for (format, number, size) in
            [(FormatType::Uint8, 1, 1), (FormatType::Uint16, 2, 2), (FormatType::Float32, 3, 4)]
        {
            assert_eq!((format.number(), format.size_bytes()), (number, size));
            assert_eq!(FormatType::from_number(number), Some(format));
        }
        assert_eq!(FormatType::from_number(0), None);
        assert_eq!((PowerMode::Performance.number(), PowerMode::UltraPerformance.number()), (0, 1));
    }
}
