//! A folder of checkpoints that differ in one size, and the checkpoints.toml that names them.

use std::{fmt, fs, path::Path, str::FromStr};

use fidelity_references::Checkpoint;
use fidelity_trace::{BosConvention, CheckpointRow};
use fidelity_verdict::Forging;

use super::{ForgeError, Step, forge, write};

/// Rungs of a ladder at most.
const MOST: usize = 64;

/// What the checkpoints of a ladder differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Width of the residual stream ([`Step::Widen`]).
    Hidden,
    /// Blocks ([`Step::Depth`]).
    Depth,
    /// How many times as many dimensions a head has ([`Step::HeadDim`]).
    HeadDim,
    /// Rows of embedding and head ([`Step::Vocab`]).
    Vocab,
}

impl Axis {
    const ALL: [Self; 4] = [Self::Hidden, Self::Depth, Self::HeadDim, Self::Vocab];

    const fn name(self) -> &'static str {
        match self {
            Self::Hidden => "hidden",
            Self::Depth => "depth",
            Self::HeadDim => "head-dim",
            Self::Vocab => "vocab",
        }
    }
}

/// Sizes to forge: `hidden=256..640:64`, both ends among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ladder {
    axis: Axis,
    first: usize,
    last: usize,
    by: usize,
}

impl FromStr for Ladder {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let axes = Axis::ALL.map(Axis::name).join(", ");
        let wrong = || format!("expected AXIS=FIRST..LAST:STEP with AXIS one of {axes}, such as hidden=256..640:64");
        let (name, sizes) = text.split_once('=').ok_or_else(wrong)?;
        let axis = Axis::ALL.into_iter().find(|axis| axis.name() == name).ok_or_else(wrong)?;
        let (range, by) = sizes.split_once(':').unwrap_or((sizes, "1"));
        let (first, last) = range.split_once("..").ok_or_else(wrong)?;
        let size = |text: &str| text.parse::<usize>().ok().filter(|size| *size > 0).ok_or_else(wrong);
        let ladder = Self { axis, first: size(first)?, last: size(last)?, by: size(by)? };
        match ladder.last.checked_sub(ladder.first).map(|span| span / ladder.by) {
            None => Err(format!("{first} is above {last}; no size lies between")),
            Some(beyond) if beyond >= MOST => {
                Err(format!("too many sizes, at most {MOST} are forged; give a larger step"))
            }
            Some(_) => Ok(ladder),
        }
    }
}

impl fmt::Display for Ladder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}..{}:{}", self.axis.name(), self.first, self.last, self.by)
    }
}

impl Ladder {
    /// What its checkpoints differ in.
    #[must_use]
    pub const fn axis(self) -> Axis {
        self.axis
    }

    /// Its sizes, the smallest first.
    pub fn sizes(self) -> impl Iterator<Item = usize> {
        (self.first..=self.last).step_by(self.by)
    }

    /// The step that makes a checkpoint of that size.
    #[must_use]
    pub const fn step(self, size: usize) -> Step {
        match self.axis {
            Axis::Hidden => Step::Widen(size),
            Axis::Depth => Step::Depth(size),
            Axis::HeadDim => Step::HeadDim(size),
            Axis::Vocab => Step::Vocab(size),
        }
    }

    /// The folder of that size, and its name in checkpoints.toml.
    #[must_use]
    pub fn name(self, source: &str, size: usize) -> String {
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '-' };
        format!("{}-{}-{size}", source.chars().map(plain).collect::<String>(), self.axis.name())
    }
}

/// Forges every size of a ladder, between steps before and after it, into `out`, which must not be there: a folder each, and a
/// checkpoints.toml that names them and keeps what `row` says of BOS, prompts and calibration. `forged` is called after each.
///
/// # Errors
/// As those of [`forge`]; then nothing of the ladder is left.
pub fn forge_ladder(
    source: &Checkpoint,
    before: &[Step],
    ladder: Ladder,
    after: &[Step],
    row: Option<&CheckpointRow>,
    out: &Path,
    forged: &mut dyn FnMut(&Forging),
) -> Result<Vec<Forging>, ForgeError> {
    let (temporary, folder) = write::aside(out)?;
    let name = &source.identity().name;
    let mut all = Vec::new();
    for size in ladder.sizes() {
        let steps = [before, &[ladder.step(size)], after].concat();
        let forging = forge(source, &steps, &folder.join(ladder.name(name, size)))?;
        forged(&forging);
        all.push(forging);
    }
    write::write_file(&folder.join("checkpoints.toml"), registry(&all, ladder, row).as_bytes())?;
    fs::rename(&folder, out).map_err(write::failed("create", out))?;
    drop(temporary);
    Ok(all)
}

fn registry(all: &[Forging], ladder: Ladder, row: Option<&CheckpointRow>) -> String {
    let mut text =
        format!("# Written by `fidelity forge --ladder {ladder}`; what each is has a forge.json in its folder.\n");
    for forging in all {
        text += &format!("\n[{0}]\nsource = \"folder:{0}\"\n", forging.name);
        if let Some(row) = row {
            text += &inherited(row);
        }
    }
    text
}

/// Settings of the source's row that hold of what is made of it; names of files would be looked for in another folder.
fn inherited(row: &CheckpointRow) -> String {
    let bos = match row.bos {
        BosConvention::Tokenizer => None,
        BosConvention::Always => Some("always"),
        BosConvention::Never => Some("never"),
    };
    let built_in = |name: &Option<String>| {
        let plain = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        name.as_deref().filter(plain).map(str::to_owned)
    };
    let settings = [
        ("bos", bos.map(str::to_owned)),
        ("prompts", built_in(&row.prompts)),
        ("calibration", built_in(&row.calibration)),
        ("recipe", built_in(&row.recipe)),
    ];
    settings.into_iter().filter_map(|(key, value)| Some(format!("{key} = \"{}\"\n", value?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_bounded_and_both_ends_are_among_them() {
        let ladder: Ladder = "hidden=256..640:64".parse().expect("a ladder");
        assert_eq!(ladder.sizes().collect::<Vec<_>>(), [256, 320, 384, 448, 512, 576, 640]);
        assert_eq!(ladder.to_string(), "hidden=256..640:64");
        assert_eq!(ladder.name("../demo x", 256), "---demo-x-hidden-256");
        assert_eq!("depth=1..3".parse::<Ladder>().expect("a ladder").sizes().count(), 3);
        for wrong in
            ["", "hidden", "hidden=1", "width=1..2", "hidden=0..2", "hidden=2..1", "hidden=1..9:0", "hidden=a..b"]
        {
            assert!(wrong.parse::<Ladder>().is_err(), "{wrong}");
        }
        let many = "hidden=1..18446744073709551615:1".parse::<Ladder>().expect_err("too many");
        assert!(many.contains("at most 64"), "{many}");
    }
}
