//! Element types, and their bytes as numbers.

use std::io::Read;

use half::{bf16, f16};
use ndarray::{ArrayD, IxDyn, ShapeBuilder};

/// An array has at most this many values (4 GiB as float32).
const MAX_VALUES: usize = 1 << 30;

/// An array has at most as many axes as numpy allows.
const MAX_AXES: usize = 64;

/// Bytes decoded at a time: a multiple of every element's size.
const CHUNK: usize = 1 << 16;

/// Integers up to here are exact in float32.
const EXACT_IN_F32: u64 = 1 << 24;

/// The element types that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dtype {
    Float16,
    Bfloat16,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
}

/// The order of an element's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endian {
    Little,
    Big,
}

/// What is known of an array before its data is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) dtype: Dtype,
    pub(crate) endian: Endian,
    /// The first axis runs fastest.
    pub(crate) fortran: bool,
    pub(crate) shape: Vec<usize>,
}

/// The values, exact but for float64, which is rounded to float32.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Values {
    Floats(ArrayD<f32>),
    Integers(ArrayD<i64>),
}

impl Dtype {
    /// The type of an .npy header, `<f4`.
    pub(crate) fn of_npy(descriptor: &str) -> Result<(Self, Endian), String> {
        let (order, kind) = descriptor.split_at_checked(1).unwrap_or(("", descriptor));
        let endian = match order {
            "<" | "|" => Endian::Little,
            ">" => Endian::Big,
            _ => return Err(unknown(descriptor)),
        };
        let dtype = match kind {
            "f2" => Self::Float16,
            "f4" => Self::Float32,
            "f8" => Self::Float64,
            "i1" => Self::Int8,
            "i2" => Self::Int16,
            "i4" => Self::Int32,
            "i8" => Self::Int64,
            "u1" => Self::Uint8,
            "u2" => Self::Uint16,
            "u4" => Self::Uint32,
            "u8" => Self::Uint64,
            _ => return Err(unknown(descriptor)),
        };
        if order == "|" && dtype.size() > 1 {
            return Err(unknown(descriptor));
        }
        Ok((dtype, endian))
    }

    pub(crate) fn of_safetensors(dtype: safetensors::Dtype) -> Result<Self, String> {
        use safetensors::Dtype as Stored;
        match dtype {
            Stored::F16 => Ok(Self::Float16),
            Stored::BF16 => Ok(Self::Bfloat16),
            Stored::F32 => Ok(Self::Float32),
            Stored::F64 => Ok(Self::Float64),
            Stored::I8 => Ok(Self::Int8),
            Stored::I16 => Ok(Self::Int16),
            Stored::I32 => Ok(Self::Int32),
            Stored::I64 => Ok(Self::Int64),
            Stored::U8 => Ok(Self::Uint8),
            Stored::U16 => Ok(Self::Uint16),
            Stored::U32 => Ok(Self::Uint32),
            Stored::U64 => Ok(Self::Uint64),
            other => Err(format!("dtype {other:?}; {EXPECTED}")),
        }
    }

    /// Bytes of an element.
    pub(crate) const fn size(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Float16 | Self::Bfloat16 | Self::Int16 | Self::Uint16 => 2,
            Self::Float32 | Self::Int32 | Self::Uint32 => 4,
            Self::Float64 | Self::Int64 | Self::Uint64 => 8,
        }
    }
}

const EXPECTED: &str = "expected floats or integers of 8 to 64 bits";

fn unknown(descriptor: &str) -> String {
    let shown = super::error::shown(descriptor);
    let advice = match descriptor.trim_start_matches(['<', '>', '|', '=']).chars().next() {
        Some('O') => {
            "Python objects (a pickle), which are never read; save plain arrays: np.savez(file, name=np.asarray(x))"
        }
        Some('b') => "booleans; save them as integers",
        Some('c') => "complex numbers",
        Some('U' | 'S') => "text",
        Some('V') => "raw bytes (bfloat16 of ml_dtypes is stored so); save .astype(np.float32)",
        _ => "an unknown element type",
    };
    format!("dtype `{shown}`: {advice}; {EXPECTED}")
}

impl Header {
    /// How many values the shape holds, if an array may have so many.
    pub(crate) fn len(&self) -> Result<usize, String> {
        let len = self.shape.iter().try_fold(1_usize, |product, extent| product.checked_mul(*extent));
        match len.filter(|len| *len <= MAX_VALUES && self.shape.len() <= MAX_AXES) {
            Some(len) => Ok(len),
            None => {
                Err(format!("shape {:?} has too many values or axes, at most {MAX_VALUES} values are read", self.shape))
            }
        }
    }

    /// Bytes of the data.
    pub(crate) fn data_bytes(&self) -> Result<u64, String> {
        Ok(self.len()? as u64 * self.dtype.size() as u64)
    }

    /// Decodes the data, which must be whole. Memory grows with what is really there, not with what the shape claims.
    pub(crate) fn read(&self, reader: &mut dyn Read) -> Result<Values, String> {
        match self.dtype {
            Dtype::Float16 => self.floats(reader, |bytes| Ok(f16::from_le_bytes(bytes).to_f32())),
            Dtype::Bfloat16 => self.floats(reader, |bytes| Ok(bf16::from_le_bytes(bytes).to_f32())),
            Dtype::Float32 => self.floats(reader, |bytes| Ok(f32::from_le_bytes(bytes))),
            Dtype::Float64 => self.floats(reader, |bytes| rounded(f64::from_le_bytes(bytes))),
            Dtype::Int8 => self.integers(reader, |bytes| Ok(i8::from_le_bytes(bytes).into())),
            Dtype::Int16 => self.integers(reader, |bytes| Ok(i16::from_le_bytes(bytes).into())),
            Dtype::Int32 => self.integers(reader, |bytes| Ok(i32::from_le_bytes(bytes).into())),
            Dtype::Int64 => self.integers(reader, |bytes| Ok(i64::from_le_bytes(bytes))),
            Dtype::Uint8 => self.integers(reader, |bytes| Ok(u8::from_le_bytes(bytes).into())),
            Dtype::Uint16 => self.integers(reader, |bytes| Ok(u16::from_le_bytes(bytes).into())),
            Dtype::Uint32 => self.integers(reader, |bytes| Ok(u32::from_le_bytes(bytes).into())),
            Dtype::Uint64 => self.integers(reader, |bytes| {
                let value = u64::from_le_bytes(bytes);
                i64::try_from(value).map_err(|_| format!("{value} is too large"))
            }),
        }
    }

    fn floats<const N: usize>(
        &self,
        reader: &mut dyn Read,
        number: impl Fn([u8; N]) -> Result<f32, String>,
    ) -> Result<Values, String> {
        Ok(Values::Floats(self.array(self.decode(reader, number)?)?))
    }

    fn integers<const N: usize>(
        &self,
        reader: &mut dyn Read,
        number: impl Fn([u8; N]) -> Result<i64, String>,
    ) -> Result<Values, String> {
        Ok(Values::Integers(self.array(self.decode(reader, number)?)?))
    }

    fn array<T>(&self, values: Vec<T>) -> Result<ArrayD<T>, String> {
        let shape = IxDyn(&self.shape).set_f(self.fortran);
        ArrayD::from_shape_vec(shape, values).map_err(|error| error.to_string())
    }

    /// `number` takes the bytes of an element, little endian.
    fn decode<const N: usize, T>(
        &self,
        reader: &mut dyn Read,
        number: impl Fn([u8; N]) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let (len, mut left) = (self.len()?, self.data_bytes()? as usize);
        let mut values = Vec::with_capacity(len.min(CHUNK));
        let mut chunk = vec![0; CHUNK.min(left.max(1))];
        while left > 0 {
            let bytes = &mut chunk[..left.min(CHUNK)];
            reader.read_exact(bytes).map_err(|error| format!("the data ends early or is damaged: {error}"))?;
            for element in bytes.as_chunks::<N>().0 {
                let mut element = *element;
                if self.endian == Endian::Big {
                    element.reverse();
                }
                values.push(number(element).map_err(|reason| format!("value {}: {reason}", values.len()))?);
            }
            left -= bytes.len();
        }
        // At its end a compressed entry checks its CRC.
        match reader.read(&mut [0]) {
            Ok(0) => Ok(values),
            Ok(_) => Err("there are bytes after the data".into()),
            Err(error) => Err(format!("the data is damaged: {error}")),
        }
    }
}

/// A float64 as float32; what is finite stays so.
fn rounded(value: f64) -> Result<f32, String> {
    let rounded = value as f32;
    if value.is_finite() && rounded.is_infinite() {
        return Err(format!("{value} does not fit in float32"));
    }
    Ok(rounded)
}

/// An integer as float32, if it is exact.
pub(crate) fn exact(value: i64) -> Option<f32> {
    (value.unsigned_abs() <= EXACT_IN_F32).then_some(value as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(dtype: Dtype, endian: Endian, shape: &[usize]) -> Header {
        Header { dtype, endian, fortran: false, shape: shape.to_vec() }
    }

    #[test]
    fn every_descriptor_that_numpy_writes_is_read_or_explained() {
        assert_eq!(Dtype::of_npy("<f4"), Ok((Dtype::Float32, Endian::Little)));
        assert_eq!(Dtype::of_npy(">i8"), Ok((Dtype::Int64, Endian::Big)));
        assert_eq!(Dtype::of_npy("|u1"), Ok((Dtype::Uint8, Endian::Little)));
        for (descriptor, says) in [
            ("|O", "pickle"),
            ("|b1", "booleans"),
            ("<c8", "complex"),
            ("<U3", "text"),
            ("|V2", "raw bytes"),
            ("|f4", "unknown"),
            ("f4", "unknown"),
            ("", "unknown"),
            ("<m8[s]", "unknown"),
            ("é", "unknown"),
        ] {
            let error = Dtype::of_npy(descriptor).expect_err(descriptor);
            assert!(error.contains(says), "{descriptor}: {error}");
        }
    }

    #[test]
    fn bytes_become_the_numbers_they_are() {
        let read = |dtype, endian, bytes: &[u8]| header(dtype, endian, &[1]).read(&mut &*bytes);
        let float = |value: f32| Ok(Values::Floats(ArrayD::from_elem(IxDyn(&[1]), value)));
        let integer = |value: i64| Ok(Values::Integers(ArrayD::from_elem(IxDyn(&[1]), value)));
        assert_eq!(read(Dtype::Float32, Endian::Little, &1.5_f32.to_le_bytes()), float(1.5));
        assert_eq!(read(Dtype::Float32, Endian::Big, &1.5_f32.to_be_bytes()), float(1.5));
        assert_eq!(read(Dtype::Float64, Endian::Big, &1.5_f64.to_be_bytes()), float(1.5));
        assert_eq!(read(Dtype::Float16, Endian::Little, &f16::from_f32(1.5).to_le_bytes()), float(1.5));
        assert_eq!(read(Dtype::Bfloat16, Endian::Little, &bf16::from_f32(1.5).to_le_bytes()), float(1.5));
        assert_eq!(read(Dtype::Int8, Endian::Little, &[0xff]), integer(-1));
        assert_eq!(read(Dtype::Uint8, Endian::Little, &[0xff]), integer(255));
        assert_eq!(read(Dtype::Int16, Endian::Big, &[0x80, 0]), integer(-32768));
        assert_eq!(read(Dtype::Uint16, Endian::Little, &[0, 0x80]), integer(32768));
        assert_eq!(read(Dtype::Int64, Endian::Little, &i64::MIN.to_le_bytes()), integer(i64::MIN));
        assert!(read(Dtype::Uint64, Endian::Little, &[0xff; 8]).is_err_and(|error| error.contains("too large")));
        let overflow = read(Dtype::Float64, Endian::Little, &1e300_f64.to_le_bytes());
        assert!(overflow.is_err_and(|error| error.contains("does not fit in float32")));
    }

    #[test]
    fn what_is_not_finite_stays() {
        let bytes = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY].map(f32::to_le_bytes).concat();
        let Ok(Values::Floats(values)) = header(Dtype::Float32, Endian::Little, &[3]).read(&mut &*bytes) else {
            panic!("floats")
        };
        assert!(values[0].is_nan() && values[1] == f32::INFINITY && values[2] == f32::NEG_INFINITY);
        let infinite = header(Dtype::Float64, Endian::Little, &[1]).read(&mut &f64::INFINITY.to_le_bytes()[..]);
        assert_eq!(infinite, Ok(Values::Floats(ArrayD::from_elem(IxDyn(&[1]), f32::INFINITY))));
    }

    #[test]
    fn sizes_are_checked_before_memory_is_taken() {
        let huge = header(Dtype::Float32, Endian::Little, &[1 << 40, 1 << 40]);
        assert!(huge.len().is_err());
        assert!(header(Dtype::Float32, Endian::Little, &[1; 65]).len().is_err());
        let claimed = header(Dtype::Float32, Endian::Little, &[MAX_VALUES]);
        assert!(claimed.read(&mut &[0; 8][..]).is_err_and(|error| error.contains("ends early")));
        let long = header(Dtype::Float32, Endian::Little, &[1]).read(&mut &[0; 5][..]);
        assert!(long.is_err_and(|error| error.contains("bytes after the data")));
        assert!(matches!(header(Dtype::Float32, Endian::Little, &[0, 7]).read(&mut &[][..]), Ok(Values::Floats(_))));
    }

    #[test]
    fn integers_become_floats_only_exactly() {
        assert_eq!(exact(-16_777_216), Some(-16_777_216.0));
        assert_eq!(exact(16_777_217), None);
        assert_eq!(exact(i64::MIN), None);
    }
}
