//! A fault with its block and value, as it is written on the command line: `name`, `name@block`, `name@block=value`.

use std::{fmt, str::FromStr};

use crate::{BlockSite, Fault, Places, Values, nearest};

/// Deliberate wrongness in the computation: a fault, in one block or in all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Intervention {
    /// What goes wrong.
    pub fault: Fault,
    /// The only block it goes wrong in; every block when absent.
    pub block: Option<u32>,
    /// How; what the fault's documentation says when absent.
    pub value: Option<FaultValue>,
}

/// The value of a fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FaultValue {
    /// A number.
    Number(f64),
    /// A word, one that the fault knows.
    Word(&'static str),
    /// A word with a whole number.
    Named(&'static str, i64),
    /// All shards of the logits in another order.
    Order {
        /// Which shard stands in each place.
        order: [u8; MOST_ORDERED],
        /// How many there are.
        of: u8,
    },
    /// Values of a kind of site are clipped to ± a limit.
    Clip {
        /// The kind of site.
        site: BlockSite,
        /// The largest magnitude that passes.
        limit: f64,
    },
    /// Two of the shards of the logits, equal where one is meant; of padding, how much of it twice.
    Shards {
        /// The first, counted from 0.
        first: u32,
        /// The second.
        second: u32,
        /// How many there are.
        of: u32,
    },
}

/// The most shards whose order can be told.
pub const MOST_ORDERED: usize = 16;

/// A `--fault` that cannot be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultError {
    /// No fault of that name.
    #[error("--fault: `{name}` is not a known fault{}; known: {}", .nearest.map_or_else(String::new, |n| format!(" (did you mean `{n}`?)")), Fault::ALL.map(Fault::name).join(", "))]
    Unknown {
        /// What was given.
        name: String,
        /// The closest existing name.
        nearest: Option<&'static str>,
    },
    /// The part after `@` is no block index.
    #[error("--fault: `{text}` is not a block index; write NAME@BLOCK with BLOCK counted from 0")]
    Block {
        /// What was given.
        text: String,
    },
    /// A block for a fault of the whole network.
    #[error("--fault: `{name}` concerns the whole network and takes no block, found `@{block}`; remove it")]
    NoBlock {
        /// The fault.
        name: &'static str,
        /// What was given.
        block: u32,
    },
    /// No block for a fault that needs one.
    #[error("--fault: `{name}` needs a block; write {name}@BLOCK with BLOCK counted from 0")]
    NeedsBlock {
        /// The fault.
        name: &'static str,
    },
    /// A value for a fault that takes none, or another kind of value.
    #[error("--fault: the value `{value}` of `{name}`: expected {expected}")]
    Value {
        /// The fault.
        name: &'static str,
        /// What was given.
        value: String,
        /// What is taken.
        expected: String,
    },
    /// The block is not in the checkpoint.
    #[error("--fault: block {block} does not exist, the checkpoint has {blocks} blocks (0 to {})", blocks.saturating_sub(1))]
    NoSuchBlock {
        /// What was given.
        block: u32,
        /// How many blocks there are.
        blocks: u32,
    },
}

impl From<Fault> for Intervention {
    /// The fault in every block, without a value.
    fn from(fault: Fault) -> Self {
        Self { fault, block: None, value: None }
    }
}

impl FromStr for Intervention {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (text, value) = match text.split_once('=') {
            Some((text, value)) => (text, Some(value)),
            None => (text, None),
        };
        let (name, block) = match text.split_once('@') {
            Some((name, block)) => {
                let index = block.parse().map_err(|_| FaultError::Block { text: block.to_owned() })?;
                (name, Some(index))
            }
            None => (text, None),
        };
        let fault = Fault::ALL.into_iter().find(|fault| fault.name() == name).ok_or_else(|| FaultError::Unknown {
            name: name.to_owned(),
            nearest: nearest(name, Fault::ALL.map(Fault::name)),
        })?;
        match (fault.places(), block) {
            (Places::Whole, Some(block)) => return Err(FaultError::NoBlock { name: fault.name(), block }),
            (Places::OneBlock, None) => return Err(FaultError::NeedsBlock { name: fault.name() }),
            _ => {}
        }
        let value = value.map(|value| read_value(fault, value)).transpose()?;
        Ok(Self { fault, block, value })
    }
}

fn read_value(fault: Fault, text: &str) -> Result<FaultValue, FaultError> {
    let wrong = |expected: String| FaultError::Value { name: fault.name(), value: text.to_owned(), expected };
    match fault.values() {
        Values::None => Err(wrong("none; remove it".into())),
        Values::Number { meaning, least, most, whole } => {
            let fits =
                |value: &f64| (least..=most).contains(value) && (!whole || value.fract() == 0.0 && *value != 0.0);
            let kind = if whole { "a whole number other than 0" } else { "a number" };
            let expected = || format!("{meaning}, {kind} from {least} to {most}");
            text.parse().ok().filter(fits).map(FaultValue::Number).ok_or_else(|| wrong(expected()))
        }
        Values::Words(words) => {
            let word = words.iter().find(|word| **word == text);
            word.map(|word| FaultValue::Word(word)).ok_or_else(|| wrong(format!("one of {}", words.join(", "))))
        }
        Values::Mixed { words, named, meaning, whole } => {
            read_mixed(text, words, named, meaning, whole).ok_or_else(|| {
                let named = named.iter().map(|word| format!("{word}:NUMBER"));
                let all: Vec<String> = words.iter().map(ToString::to_string).chain(named).collect();
                let number = if meaning.is_empty() { String::new() } else { format!(", or {meaning}, a number") };
                wrong(format!("one of {}{number}", all.join(", ")))
            })
        }
        Values::Clip => {
            let parsed = text.split_once(':').and_then(|(site, limit)| {
                let limit = limit.parse().ok().filter(|limit: &f64| limit.is_finite() && *limit > 0.0)?;
                Some(FaultValue::Clip { site: BlockSite::named(site)?, limit })
            });
            let expected = "a kind of site inside a block and a positive limit, such as v:1.5";
            parsed.ok_or_else(|| wrong(expected.into()))
        }
        Values::Padding => {
            let parsed = text.split_once('/').and_then(|(padding, of)| {
                let (padding, of) = (padding.parse().ok()?, of.parse().ok()?);
                let fits = (1..=4096).contains(&padding) && (1..=1024).contains(&of);
                fits.then_some(FaultValue::Shards { first: padding, second: padding, of })
            });
            parsed.ok_or_else(|| wrong("the padding of a shard of the logits and their number, such as 8/2".into()))
        }
        Values::Shards => {
            let expected = "a shard and their number, such as 1/4, or two of them to exchange, such as 0-1/2";
            read_shards(text).ok_or_else(|| wrong(expected.into()))
        }
    }
}

fn read_mixed(
    text: &str,
    words: &'static [&'static str],
    named: &'static [&'static str],
    meaning: &str,
    whole: bool,
) -> Option<FaultValue> {
    if let Some(word) = words.iter().find(|word| **word == text) {
        return Some(FaultValue::Word(word));
    }
    if let Some((name, number)) = text.split_once(':') {
        let word = named.iter().find(|word| **word == name)?;
        let number: i64 = number.parse().ok().filter(|number: &i64| number.unsigned_abs() <= 1 << 20)?;
        return Some(FaultValue::Named(word, number));
    }
    let number: f64 = text.parse().ok().filter(|_| !meaning.is_empty())?;
    let fits = if whole {
        number.fract() == 0.0 && (1.0..=4096.0).contains(&number.abs())
    } else {
        (1e-3..=1e3).contains(&number)
    };
    fits.then_some(FaultValue::Number(number))
}

fn read_shards(text: &str) -> Option<FaultValue> {
    let (which, of) = text.split_once('/')?;
    let of: u32 = of.parse().ok().filter(|of| (1..=1024).contains(of))?;
    let shards: Vec<u32> =
        which.split('-').map(|shard| shard.parse().ok().filter(|it| *it < of)).collect::<Option<_>>()?;
    match shards[..] {
        [shard] => Some(FaultValue::Shards { first: shard, second: shard, of }),
        [first, second] => Some(FaultValue::Shards { first, second, of }),
        _ => {
            let mut sorted = shards.clone();
            sorted.sort_unstable();
            let all = sorted.len() <= MOST_ORDERED && sorted.iter().copied().eq(0..of);
            let mut order = [0; MOST_ORDERED];
            shards.iter().zip(&mut order).for_each(|(shard, place)| *place = *shard as u8);
            all.then_some(FaultValue::Order { order, of: of as u8 })
        }
    }
}

impl Intervention {
    /// Checks that the block exists.
    ///
    /// # Errors
    /// A block at or past `blocks`.
    pub fn check(&self, blocks: u32) -> Result<(), FaultError> {
        let other = self.block.and_then(|block| match (self.fault, self.value) {
            (Fault::LayersSwapped, value) => Some(match value {
                Some(FaultValue::Number(other)) => other as u32,
                _ => block + 1,
            }),
            (_, Some(FaultValue::Word("copied"))) => Some(block + 1),
            _ => None,
        });
        match self.block.into_iter().chain(other).find(|block| *block >= blocks) {
            Some(block) => Err(FaultError::NoSuchBlock { block, blocks }),
            None => Ok(()),
        }
    }

    /// Whether the fault acts in this block.
    #[must_use]
    pub fn acts_in(&self, block: u32) -> bool {
        self.block.is_none_or(|only| only == block)
    }

    /// Its value, where it is a number.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self.value {
            Some(FaultValue::Number(number)) => Some(number),
            _ => None,
        }
    }

    /// Its word, the first that the fault knows when none was given; empty for a fault that takes none.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match (self.value, self.fault.values()) {
            (Some(FaultValue::Word(word) | FaultValue::Named(word, _)), _) => word,
            (None, Values::Words(words) | Values::Mixed { words, .. }) => words[0],
            _ => "",
        }
    }

    /// Its shards, `first`, `second` and how many there are; of padding, how much a shard has in the place of the former.
    #[must_use]
    pub fn shards(&self) -> (u32, u32, u32) {
        match (self.value, self.fault) {
            (Some(FaultValue::Shards { first, second, of }), _) => (first, second, of),
            (Some(FaultValue::Order { of, .. }), _) => (0, 0, u32::from(of)),
            (_, Fault::HeadMissing) => (3, 3, 4),
            (_, Fault::VocabPadded) => (8, 8, 2),
            _ => (0, 1, 2),
        }
    }
}

impl fmt::Display for FaultValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Word(word) => f.write_str(word),
            Self::Clip { site, limit } => write!(f, "{}:{limit}", site.name()),
            Self::Named(word, number) => write!(f, "{word}:{number}"),
            Self::Order { order, of } => {
                let shards: Vec<String> = order.iter().take(usize::from(*of)).map(ToString::to_string).collect();
                write!(f, "{}/{of}", shards.join("-"))
            }
            Self::Shards { first, second, of } if first == second => write!(f, "{first}/{of}"),
            Self::Shards { first, second, of } => write!(f, "{first}-{second}/{of}"),
        }
    }
}

impl fmt::Display for Intervention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.fault.name())?;
        self.block.map_or(Ok(()), |block| write!(f, "@{block}"))?;
        self.value.map_or(Ok(()), |value| write!(f, "={value}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_reads_with_and_without_block_and_value() {
        let parsed: Intervention = "gqa_tile@2".parse().expect("valid");
        assert_eq!(parsed, Intervention { block: Some(2), ..Fault::GqaTile.into() });
        assert!(parsed.acts_in(2) && !parsed.acts_in(1));
        assert!(parsed.check(2).is_err());
        for text in [
            "gqa_tile@2",
            "rope_theta=500000",
            "score_scale@1=0.5",
            "activation_clipped@0=v:1.5",
            "shards_swapped=0-2/4",
            "head_missing=1/4",
            "layer_duplicated@1=copied",
            "kv_offset=-2",
            "kv_offset=every:-1",
            "kv_layout@0=keys_by_channel:40",
            "score_scale=by_layer",
            "shards_swapped=3-2-1-0/4",
        ] {
            assert_eq!(text.parse::<Intervention>().expect(text).to_string(), text);
        }
    }

    #[test]
    fn bad_faults_say_what_is_wrong() {
        for (text, part) in [
            ("gqa_tiles", "did you mean `gqa_tile`?"),
            ("gqa_tile@x", "`x` is not a block index"),
            ("mask_missing=3", "expected none"),
            ("layer_skipped", "needs a block"),
            ("head_tied@1", "takes no block"),
            ("rope_theta=0", "the base, a number from"),
            ("rope_theta=NaN", "the base, a number from"),
            ("kv_offset=0", "one of next, every:NUMBER, or the offset"),
            ("shards_swapped=0-0-1/3", "such as 0-1/2"),
            ("kv_stale=old", "one of empty, previous, lag"),
            ("activation_clipped=1.5", "such as v:1.5"),
            ("activation_clipped=v:inf", "such as v:1.5"),
            ("shards_swapped=2-3/3", "such as 0-1/2"),
        ] {
            let error = text.parse::<Intervention>().expect_err(text).to_string();
            assert!(error.contains(part), "{error}");
        }
        let swap: Intervention = "layers_swapped@1".parse().expect("valid");
        assert!(swap.check(2).is_err() && swap.check(3).is_ok());
    }
}
