//! Why a recipe cannot be used, and where.

use std::ops::Range;

/// A recipe that cannot be used: what is wrong at which place of its text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {fault}")]
pub struct RecipeError {
    /// The file.
    pub file: String,
    /// 1-based.
    pub line: usize,
    /// 1-based, in characters.
    pub column: usize,
    /// The script.
    pub text: String,
    /// Where in the script, in bytes.
    pub span: Range<usize>,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong with a recipe.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// Not the grammar of a model script.
    #[error("expected {expected}, found {found}")]
    Syntax {
        /// What could stand here.
        expected: &'static str,
        /// What does.
        found: String,
    },
    /// A character that begins nothing.
    #[error("`{}` has no place in a model script", found.escape_debug())]
    Character {
        /// The character.
        found: char,
    },
    /// A string without its end.
    #[error("a string begins with {open} and does not end on its line")]
    Unclosed {
        /// The quote.
        open: char,
    },
    /// Lists in lists.
    #[error("lists are nested deeper than {deepest}")]
    Nested {
        /// How deep they may be.
        deepest: usize,
    },
    /// A script that is too large.
    #[error("the script has {bytes} bytes, expected at most {most}")]
    TooLarge {
        /// Its size.
        bytes: usize,
        /// The most that is read.
        most: usize,
    },
    /// A script that decides nothing.
    #[error("the script holds no command; the least is `quantization_param({{*}}, precision_mode=a16_w8)`")]
    Empty,
    /// A command, feature, parameter or layer that does not exist.
    #[error("`{}` is not a {what}{}; known: {known}", name.escape_debug(), hint(.nearest.as_deref()))]
    Unknown {
        /// What it should be.
        what: &'static str,
        /// What stands there.
        name: String,
        /// The closest one that exists.
        nearest: Option<String>,
        /// Those that exist.
        known: String,
    },
    /// A value that is not one of those a parameter takes.
    #[error("{parameter} is {}, expected {expected}", found.escape_debug())]
    Value {
        /// The parameter.
        parameter: String,
        /// What stands there.
        found: String,
        /// What it takes.
        expected: &'static str,
    },
    /// An argument that is missing.
    #[error("{command} needs {missing}")]
    Missing {
        /// The command.
        command: String,
        /// What is missing.
        missing: &'static str,
    },
    /// An argument too many.
    #[error("{command} takes no further argument here; {usage}")]
    TooMany {
        /// The command.
        command: String,
        /// How it is used.
        usage: &'static str,
    },
    /// A group that does not divide a layer's inputs.
    #[error("weight_group_size {group} does not divide the {inputs} inputs of {layer}; select layers that it divides")]
    Group {
        /// Weights a group.
        group: usize,
        /// Input width of the layer.
        inputs: usize,
        /// The layer.
        layer: String,
    },
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean `{name}`?)"))
}

/// What is wrong and where, before the file is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub(crate) fault: Fault,
    pub(crate) span: Range<usize>,
}

impl Fault {
    pub(crate) const fn at(self, span: Range<usize>) -> Problem {
        Problem { fault: self, span }
    }
}

impl Problem {
    pub(crate) fn in_file(self, file: &str, text: &str) -> RecipeError {
        let Self { fault, span } = self;
        let before = text.get(..span.start).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        RecipeError {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            text: text.to_owned(),
            span,
            fault,
        }
    }
}
