//! The steps of `fidelity forge` in the order they were given in, which derived arguments do not keep.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, error::ErrorKind, value_parser};
use fidelity_diagnose::{Ladder, Step};

/// What is to be forged.
#[derive(Clone, Debug)]
pub(crate) struct Steps(pub(crate) Asked);

#[derive(Clone, Debug)]
pub(crate) enum Asked {
    One(Vec<Step>),
    /// A checkpoint for each size of a ladder, between steps before and after it.
    Ladder {
        before: Vec<Step>,
        ladder: Ladder,
        after: Vec<Step>,
    },
}

impl Asked {
    /// All steps that are given, whatever their place.
    pub(crate) fn steps_mut(&mut self) -> impl Iterator<Item = &mut Step> {
        let (before, after) = match self {
            Self::One(steps) => (steps, None),
            Self::Ladder { before, after, .. } => (before, Some(after)),
        };
        before.iter_mut().chain(after.into_iter().flatten())
    }
}

/// One argument that may be repeated: its help, and how its values become steps.
struct Flag {
    name: &'static str,
    value: Option<&'static str>,
    help: &'static str,
    step: fn(&str) -> Result<Step, String>,
}

const FLAGS: &[Flag] = &[
    Flag {
        name: "widen",
        value: Some("HIDDEN"),
        help: "The same function in a residual stream of HIDDEN channels: zeros beside it, norms and epsilon scaled",
        step: |text| number(text).map(Step::Widen),
    },
    Flag {
        name: "rotate",
        value: Some("SEED"),
        help: "The same function in a residual stream rotated by an orthogonal matrix of that seed: norms folded, head untied",
        step: |text| number(text).map(Step::Rotate),
    },
    Flag {
        name: "heads",
        value: Some("mha"),
        help: "The same function with grouped key and value heads written out, one for every query head",
        step: |text| if text == "mha" { Ok(Step::HeadsMha) } else { Err("expected `mha`".into()) },
    },
    Flag {
        name: "head-dim",
        value: Some("TIMES"),
        help: "The same function with heads of 2x, 3x, … as many dimensions, the new ones zero",
        step: |text| number(text.strip_suffix(['x', '×']).unwrap_or(text)).map(Step::HeadDim),
    },
    Flag {
        name: "depth",
        value: Some("BLOCKS"),
        help: "The first BLOCKS blocks, then final norm and head",
        step: |text| number(text).map(Step::Depth),
    },
    Flag {
        name: "skip",
        value: Some("BLOCK"),
        help: "All blocks but this one, counted from 0 in what the steps before it leave",
        step: |text| number(text).map(Step::Skip),
    },
    Flag {
        name: "first-heads",
        value: Some("BLOCK=HEADS"),
        help: "Of the block's query heads the first HEADS alone; what the others would add is left out",
        step: |text| {
            let (block, heads) = text.split_once('=').ok_or("expected BLOCK=HEADS, such as 3=4")?;
            Ok(Step::FirstHeads { block: number(block)?, heads: number(heads)? })
        },
    },
    Flag {
        name: "vocab",
        value: Some("ROWS"),
        help: "ROWS rows of embedding and head: the first ones, whose logits stay, or all and copies of them behind",
        step: |text| number(text).map(Step::Vocab),
    },
    Flag {
        name: "outlier",
        value: Some("SITE=CHANNEL×FACTOR"),
        help: "The same function with a channel so many times as large, taken off again in what reads it: blocks.2.act=17x64; \
               without a block, in every one",
        step: |text| text.parse().map(Step::Outlier),
    },
    Flag {
        name: "calm",
        value: None,
        help: "The same function with channels of even magnitude on the calibration prompts, where a channel can be scaled",
        step: |_| Ok(Step::Calm(Vec::new())),
    },
    Flag {
        name: "untie",
        value: None,
        help: "The same function with a head of its own, a copy of the embedding",
        step: |_| Ok(Step::Untie),
    },
    Flag {
        name: "tie",
        value: None,
        help: "The same function with the embedding as head, where the two are equal bit for bit",
        step: |_| Ok(Step::Tie),
    },
];

const LADDER: &str = "ladder";

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "expected a whole number".into())
}

impl Args for Steps {
    fn augment_args(command: Command) -> Command {
        let command = FLAGS.iter().fold(command, |command, flag| {
            let arg = Arg::new(flag.name).long(flag.name).help(flag.help).action(ArgAction::Append);
            let parser = value_parser!(String);
            command.arg(match flag.value {
                Some(value) => arg.value_name(value).value_parser(parser),
                // A value of its own, so that it has a place among the others.
                None => arg.num_args(0).default_missing_value("").value_parser(parser),
            })
        });
        command.arg(
            Arg::new(LADDER)
                .long(LADDER)
                .value_name("AXIS=FIRST..LAST:STEP")
                .help(
                    "A folder of checkpoints, one for each size, and a checkpoints.toml that names them: hidden=256..640:64 \
                     widens to each, depth=1..4:1 keeps so many blocks. Steps before and after it are those of every one",
                )
                .value_parser(value_parser!(Ladder)),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Steps {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut placed = Vec::new();
        for flag in FLAGS {
            let places = matches.indices_of(flag.name).into_iter().flatten();
            let values = matches.get_many::<String>(flag.name).into_iter().flatten();
            for (place, value) in places.zip(values) {
                let wrong = |reason| {
                    let shown = value.escape_default();
                    Error::raw(ErrorKind::InvalidValue, format!("--{} `{shown}`: {reason}\n", flag.name))
                };
                placed.push((place, (flag.step)(value).map_err(wrong)?));
            }
        }
        placed.sort_by_key(|(place, _)| *place);
        let ladder = matches.get_one::<Ladder>(LADDER).zip(matches.index_of(LADDER));
        let Some((ladder, at)) = ladder else {
            return Ok(Self(Asked::One(placed.into_iter().map(|(_, step)| step).collect())));
        };
        let after = placed.split_off(placed.partition_point(|(place, _)| *place < at));
        let steps = |placed: Vec<(usize, Step)>| placed.into_iter().map(|(_, step)| step).collect();
        Ok(Self(Asked::Ladder { before: steps(placed), ladder: *ladder, after: steps(after) }))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
