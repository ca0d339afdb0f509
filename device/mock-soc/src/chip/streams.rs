//! Frames of a stream: bytes to values and back, in the type that the client asked for.

use fidelity_device::hef::Stream;

use crate::{
    network::{Grid, largest_code},
    status::{self, Failure},
};

/// `hailo_format_type_t`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// The device's own codes.
    Codes,
    /// float32, converted here: over RPC all conversions are the server's.
    Float,
}

/// A stream of a configured group.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) rows: usize,
    pub(super) width: usize,
    pub(super) grid: Grid,
    pub(super) format: Format,
    code_bytes: usize,
}

/// Above this a stream is refused.
const MOST_VALUES: usize = 1 << 28;

impl Port {
    /// A stream in the type asked for: 0 and the stream's own are codes, 3 is float32.
    pub(super) fn of(stream: &Stream, asked: u32) -> Result<Self, Failure> {
        let wrong = |status, why: &str| Failure::new(status, format!("stream {:?}: {why}", stream.name));
        let unusable = |why| wrong(status::INVALID_HEF, why);
        let [height, width, features] = stream.shape.map(|size| usize::try_from(size).unwrap_or(usize::MAX));
        let rows = height.checked_mul(width).filter(|rows| *rows > 0).ok_or_else(|| unusable("no rows"))?;
        let values = rows.checked_mul(features).filter(|values| (1..=MOST_VALUES).contains(values));
        values.ok_or_else(|| unusable("too large, or empty"))?;
        let code_bytes = stream.data_bytes as usize;
        let numbers = stream.quantisation.as_ref().ok_or_else(|| unusable("no quantisation"))?;
        let scaled = numbers.scale > 0.0 && numbers.scale.is_finite();
        if !((1..=2).contains(&code_bytes) && scaled) {
            return Err(unusable("neither uint8 nor uint16 codes with a scale"));
        }
        let format = match asked {
            0 => Format::Codes,
            own if own as usize == code_bytes => Format::Codes,
            3 => Format::Float,
            _ => return Err(wrong(status::INVALID_ARGUMENT, "there is no conversion to the type asked for")),
        };
        let (scale, zero_point, limits) = (numbers.scale, numbers.zero_point, numbers.limits);
        let grid = Grid { scale, zero_point, limits, largest_code: largest_code(code_bytes) };
        Ok(Self { name: stream.name.clone(), rows, width: features, grid, format, code_bytes })
    }

    /// `hailo_format_type_t` of what goes over the link.
    pub(super) const fn format_type(&self) -> u32 {
        match self.format {
            Format::Codes => self.code_bytes as u32,
            Format::Float => 3,
        }
    }

    pub(super) const fn frame_bytes(&self) -> usize {
        let value = match self.format {
            Format::Codes => self.code_bytes,
            Format::Float => 4,
        };
        self.rows * self.width * value
    }

    /// What the network sees of a frame: codes on the stream's grid, whatever the client sent.
    pub(super) fn read(&self, frame: &[u8]) -> Vec<f32> {
        let code = |code: u16| self.grid.value(code);
        match (self.format, self.code_bytes) {
            (Format::Float, _) => {
                let values = frame.as_chunks::<4>().0.iter().map(|quad| f32::from_le_bytes(*quad));
                values.map(|value| code(self.grid.code(value))).collect()
            }
            (Format::Codes, 1) => frame.iter().map(|byte| code(u16::from(*byte))).collect(),
            (Format::Codes, _) => frame.as_chunks::<2>().0.iter().map(|pair| code(u16::from_le_bytes(*pair))).collect(),
        }
    }

    /// A frame of what the network computed.
    pub(super) fn write(&self, values: impl Iterator<Item = f32>) -> Vec<u8> {
        let codes = values.map(|value| self.grid.code(value));
        match (self.format, self.code_bytes) {
            (Format::Float, _) => codes.flat_map(|code| self.grid.value(code).to_le_bytes()).collect(),
            (Format::Codes, 1) => codes.map(|code| code as u8).collect(),
            (Format::Codes, _) => codes.flat_map(u16::to_le_bytes).collect(),
        }
    }
}
