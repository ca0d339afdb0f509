//! The axes of an array, as a map words them: `1 1 row value`.
//!
//! A word an axis. `prompt`, `row`, `head`, `dim`, `key` and `value` say what an axis is; `1` is an axis of size 1, `...` are
//! any number of them; `(head dim)` or `(dim head)` is one axis that holds both, the first named running slowest. Whatever
//! their order in the file, in a trace they stand as prompt, row, head, dim or key or value.

use std::fmt;

use ndarray::{ArrayD, Axis as Index, IxDyn};

/// What an axis is, in the order of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Word {
    /// One entry a prompt.
    Prompt,
    /// One entry a row.
    Row,
    /// One entry a head.
    Head,
    /// Values of a head.
    Dim,
    /// One entry a key that is attended to.
    Key,
    /// All values of a row.
    Value,
}

impl Word {
    const ALL: [Self; 6] = [Self::Prompt, Self::Row, Self::Head, Self::Dim, Self::Key, Self::Value];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Prompt => "prompt",
            Self::Row => "row",
            Self::Head => "head",
            Self::Dim => "dim",
            Self::Key => "key",
            Self::Value => "value",
        }
    }
}

/// One axis of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    /// Size 1, dropped.
    One,
    /// Any number of axes of size 1, dropped.
    Ones,
    /// As it is.
    Word(Word),
    /// Heads side by side.
    HeadDim,
    /// Dimensions side by side, each with all heads.
    DimHead,
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::One => "1",
            Self::Ones => "...",
            Self::Word(word) => word.name(),
            Self::HeadDim => "(head dim)",
            Self::DimHead => "(dim head)",
        })
    }
}

/// The axes of an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Axes(Vec<Axis>);

impl fmt::Display for Axes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&words.join(" "))
    }
}

impl Axes {
    pub(crate) fn new(axes: Vec<Axis>) -> Self {
        Self(axes)
    }

    /// Reads `1 1 row value`.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let spaced = text.replace("(head dim)", "(head,dim)").replace("(dim head)", "(dim,head)");
        let axes: Vec<Axis> = spaced.split_whitespace().map(axis).collect::<Result<_, _>>()?;
        let words: Vec<Word> = axes.iter().flat_map(|axis| words(*axis)).copied().collect();
        let twice = Word::ALL.into_iter().find(|word| words.iter().filter(|other| *other == word).count() > 1);
        if let Some(word) = twice {
            return Err(format!("`{text}` says `{}` twice", word.name()));
        }
        if axes.iter().filter(|axis| **axis == Axis::Ones).count() > 1 {
            return Err(format!("`{text}` says `...` twice"));
        }
        let holds = |word| words.contains(&word);
        if holds(Word::Value) && (holds(Word::Head) || holds(Word::Dim) || holds(Word::Key)) {
            return Err(format!("`{text}`: `value` is all of a row, so it does not go with head, dim or key"));
        }
        if !(holds(Word::Value) || holds(Word::Dim) || holds(Word::Key)) {
            return Err(format!("`{text}` has no axis with the values of a row; one must be `value`, `dim` or `key`"));
        }
        Ok(Self(axes))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Axis> {
        self.0.iter().copied()
    }

    pub(crate) fn has(&self, word: Word) -> bool {
        self.iter().any(|axis| words(axis).contains(&word))
    }

    /// Says what each axis of an array of this shape is: as many as it has axes.
    pub(crate) fn over(&self, shape: &[usize]) -> Result<Vec<Axis>, String> {
        let named = self.0.len() - usize::from(self.0.contains(&Axis::Ones));
        let fits = if named < self.0.len() { shape.len() >= named } else { shape.len() == named };
        if !fits {
            return Err(format!("shape {shape:?} has {} axes, but axes = \"{self}\" names {named}", shape.len()));
        }
        let ones = shape.len() - named;
        let axes = self.iter().flat_map(|axis| match axis {
            Axis::Ones => vec![Axis::One; ones],
            axis => vec![axis],
        });
        let axes: Vec<Axis> = axes.collect();
        match axes.iter().zip(shape).position(|(axis, extent)| *axis == Axis::One && *extent != 1) {
            Some(index) => Err(format!(
                "shape {shape:?} read as axes = \"{self}\": axis {index} has size {}, expected 1",
                shape[index]
            )),
            None => Ok(axes),
        }
    }

    /// The size of what `word` names in an array of this shape, if the axis is not shared with another word.
    pub(crate) fn extent(&self, word: Word, shape: &[usize]) -> Result<Option<usize>, String> {
        let axes = self.over(shape)?;
        Ok(axes.iter().zip(shape).find(|(axis, _)| **axis == Axis::Word(word)).map(|(_, extent)| *extent))
    }

    /// The array in the order of a trace, `[prompt, row, …]`, both first axes always there. `heads` splits `(dim head)`.
    pub(crate) fn arrange<T: Clone>(&self, array: &ArrayD<T>, heads: Option<usize>) -> Result<ArrayD<T>, String> {
        let axes = self.over(array.shape())?;
        let mut split = Vec::new();
        let mut order = Vec::new();
        for (axis, extent) in axes.iter().zip(array.shape()) {
            match axis {
                Axis::One | Axis::Ones => {}
                Axis::Word(word) => {
                    order.push(*word);
                    split.push(*extent);
                }
                // Heads side by side are as good as a flat row, whatever their number.
                Axis::HeadDim => {
                    order.push(Word::Value);
                    split.push(*extent);
                }
                Axis::DimHead => {
                    let heads = heads.ok_or("`(dim head)` needs the number of heads; add heads = N to the site")?;
                    if heads == 0 || extent % heads != 0 {
                        return Err(format!(
                            "`(dim head)` has size {extent}, which is not a multiple of {heads} heads"
                        ));
                    }
                    order.extend([Word::Dim, Word::Head]);
                    split.extend([extent / heads, heads]);
                }
            }
        }
        for missing in [Word::Prompt, Word::Row].into_iter().filter(|word| !self.has(*word)) {
            order.push(missing);
            split.push(1);
        }
        let reshaped = array.to_shape(IxDyn(&split)).map_err(|error| error.to_string())?;
        let mut places: Vec<usize> = (0..order.len()).collect();
        places.sort_by_key(|place| order[*place]);
        Ok(reshaped.permuted_axes(IxDyn(&places)).as_standard_layout().into_owned())
    }
}

/// The words in an axis.
pub(crate) const fn words(axis: Axis) -> &'static [Word] {
    match axis {
        Axis::One | Axis::Ones => &[],
        Axis::Word(Word::Prompt) => &[Word::Prompt],
        Axis::Word(Word::Row) => &[Word::Row],
        Axis::Word(Word::Head) => &[Word::Head],
        Axis::Word(Word::Dim) => &[Word::Dim],
        Axis::Word(Word::Key) => &[Word::Key],
        Axis::Word(Word::Value) => &[Word::Value],
        Axis::HeadDim | Axis::DimHead => &[Word::Head, Word::Dim],
    }
}

fn axis(word: &str) -> Result<Axis, String> {
    match word {
        "1" => Ok(Axis::One),
        "..." => Ok(Axis::Ones),
        "(head,dim)" => Ok(Axis::HeadDim),
        "(dim,head)" => Ok(Axis::DimHead),
        name => Word::ALL.into_iter().find(|word| word.name() == name).map(Axis::Word).ok_or_else(|| {
            format!(
                "`{name}` is not an axis; axes are prompt, row, head, dim, key, value, (head dim), (dim head), 1 and ..."
            )
        }),
    }
}

/// Joins arrays in the order of a trace along their last axis.
pub(crate) fn join<T: Clone>(mut arrays: Vec<ArrayD<T>>) -> Result<ArrayD<T>, String> {
    if arrays.len() == 1 {
        return arrays.pop().ok_or_else(String::new);
    }
    let last = arrays.first().map_or(0, |array| array.ndim().saturating_sub(1));
    let views: Vec<_> = arrays.iter().map(|array| array.view()).collect();
    ndarray::concatenate(Index(last), &views).map_err(|_| {
        let shapes: Vec<_> = arrays.iter().map(ArrayD::shape).collect();
        format!("the arrays cannot be joined: arranged they have shapes {shapes:?}, which differ in more than their last axis")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array;

    fn counted(shape: &[usize]) -> ArrayD<f32> {
        let len: usize = shape.iter().product();
        Array::from_iter((0..len).map(|value| value as f32)).into_shape_with_order(IxDyn(shape)).expect("as many")
    }

    fn arranged(text: &str, shape: &[usize], heads: Option<usize>) -> (Vec<usize>, Vec<f32>) {
        let array = Axes::parse(text).expect("valid").arrange(&counted(shape), heads).expect("fits");
        (array.shape().to_vec(), array.into_iter().collect())
    }

    #[test]
    fn axes_are_brought_into_the_order_of_a_trace() {
        assert_eq!(arranged("1 1 row value", &[1, 1, 2, 3], None), (vec![1, 2, 3], vec![0., 1., 2., 3., 4., 5.]));
        assert_eq!(arranged("value row", &[3, 2], None), (vec![1, 2, 3], vec![0., 2., 4., 1., 3., 5.]));
        assert_eq!(arranged("... value", &[1, 1, 3], None).0, [1, 1, 3]);
        assert_eq!(arranged("value", &[3], None).0, [1, 1, 3]);
        assert_eq!(arranged("prompt 1 row value", &[4, 1, 2, 3], None).0, [4, 2, 3]);
        assert_eq!(arranged("1 head row dim", &[1, 2, 1, 2], None), (vec![1, 1, 2, 2], vec![0., 1., 2., 3.]));
    }

    #[test]
    fn heads_inside_dimensions_are_taken_apart() {
        assert_eq!(arranged("row (dim head)", &[1, 6], Some(2)), (vec![1, 1, 2, 3], vec![0., 2., 4., 1., 3., 5.]));
        assert_eq!(arranged("row (head dim)", &[1, 6], None), (vec![1, 1, 6], vec![0., 1., 2., 3., 4., 5.]));
        let axes = Axes::parse("row (dim head)").expect("valid");
        assert!(axes.arrange(&counted(&[1, 6]), None).is_err_and(|error| error.contains("heads = N")));
        assert!(axes.arrange(&counted(&[1, 6]), Some(4)).is_err_and(|error| error.contains("not a multiple")));
        assert!(axes.arrange(&counted(&[1, 6]), Some(0)).is_err());
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, says) in [
            ("row row value", "`row` twice"),
            ("row", "no axis with the values"),
            ("", "no axis with the values"),
            ("row colour value", "`colour` is not an axis"),
            ("row value key", "does not go with"),
            ("... row ... value", "`...` twice"),
        ] {
            let error = Axes::parse(text).expect_err(text);
            assert!(error.contains(says), "{text}: {error}");
        }
        let axes = Axes::parse("1 row value").expect("valid");
        assert!(axes.over(&[2, 3]).is_err_and(|error| error.contains("has 2 axes")));
        assert!(axes.over(&[2, 3, 4]).is_err_and(|error| error.contains("axis 0 has size 2, expected 1")));
        assert!(Axes::parse("... row value").expect("valid").over(&[2, 3, 4]).is_err());
    }

    #[test]
    fn shards_are_joined_along_the_values() {
        let joined = join(vec![counted(&[1, 2, 1]), counted(&[1, 2, 2])]).expect("fits");
        assert_eq!(joined.shape(), [1, 2, 3]);
        assert_eq!(joined.into_iter().collect::<Vec<_>>(), [0., 0., 1., 1., 2., 3.]);
        assert!(
            join(vec![counted(&[1, 2, 1]), counted(&[1, 3, 1])]).is_err_and(|error| error.contains("cannot be joined"))
        );
    }
}
