//! Bits of what a layer reads, holds and writes.

use std::{fmt, str::FromStr};

/// A `precision_mode`: `a16_w8`, or with what is written `a16_w4_a16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Precision {
    /// Bits of the activations that the layer reads: 8 or 16.
    pub reads: u32,
    /// Bits of its weights: 4, 8 or 16.
    pub weights: u32,
    /// Bits of what it writes: the third field, else the first.
    pub writes: u32,
}

impl Precision {
    /// What a layer has that no line of a recipe names.
    pub const DEFAULT: Self = Self { reads: 8, weights: 8, writes: 8 };
    /// What [`Precision::from_str`] reads.
    pub(crate) const EXPECTED: &'static str = "aX_wY or aX_wY_aZ with X and Z 8 or 16, Y 4, 8 or 16";
}

impl FromStr for Precision {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let bits = |field: &str, letter: char, known: &[u32]| {
            known.iter().copied().find(|bits| field.strip_prefix(letter) == Some(bits.to_string().as_str())).ok_or(())
        };
        let fields: Vec<&str> = text.split('_').collect();
        let [reads, weights, writes @ ..] = fields.as_slice() else { return Err(()) };
        let (reads, weights) = (bits(reads, 'a', &[8, 16])?, bits(weights, 'w', &[4, 8, 16])?);
        match writes {
            [] => Ok(Self { reads, weights, writes: reads }),
            [writes] => Ok(Self { reads, weights, writes: bits(writes, 'a', &[8, 16])? }),
            _ => Err(()),
        }
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a{}_w{}", self.reads, self.weights)?;
        if self.writes == self.reads { Ok(()) } else { write!(f, "_a{}", self.writes) }
    }
}
