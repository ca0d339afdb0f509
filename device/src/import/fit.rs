//! What would fit, where an array does not have the layout that the map says.

use super::{
    axes::{Axes, Axis, Word, words},
    shapes::Expected,
};

/// More axes than this are not permuted: 720 orders.
const MAX_AXES: usize = 6;

impl Expected {
    /// What the size of an axis should be, if that is known.
    fn extent(&self, axis: Axis) -> Option<usize> {
        match axis {
            Axis::One | Axis::Ones => Some(1),
            Axis::Word(Word::Prompt) => self.prompts,
            Axis::Word(Word::Row) => self.rows,
            Axis::Word(Word::Head) => self.heads,
            Axis::Word(Word::Dim | Word::Key) => self.inner,
            Axis::Word(Word::Value) | Axis::HeadDim | Axis::DimHead => self.values,
        }
    }
}

/// Every way to read an array of this shape with the words of `axes`, as far as sizes tell; the map's own reading first, if it
/// fits. `shards` arrays of equal width make up a row.
pub(crate) fn readings(axes: &Axes, shape: &[usize], expected: &Expected, shards: usize) -> Vec<Axes> {
    let meant: Vec<Axis> = axes.iter().filter(|axis| !words(*axis).is_empty()).collect();
    let own = axes.over(shape).ok();
    let mut found: Vec<Axes> = Vec::new();
    if shape.len() <= MAX_AXES && meant.len() <= shape.len() {
        place(&meant, &mut vec![Axis::One; shape.len()], &mut |placed| {
            let fits = placed.iter().zip(shape).all(|(axis, extent)| {
                let last =
                    matches!(axis, Axis::Word(Word::Value | Word::Dim | Word::Key) | Axis::HeadDim | Axis::DimHead);
                let extent = if last { extent * shards } else { *extent };
                expected.extent(*axis).is_none_or(|expected| expected == extent)
            });
            if fits
                && own.as_deref() != Some(placed)
                && !found.iter().any(|other| other.iter().eq(placed.iter().copied()))
            {
                found.push(Axes::new(placed.to_vec()));
            }
        });
    }
    found
}

/// Calls `visit` with every placing of `meant` on axes that are still `1`.
fn place(meant: &[Axis], placed: &mut Vec<Axis>, visit: &mut dyn FnMut(&[Axis])) {
    let Some((first, rest)) = meant.split_first() else { return visit(placed) };
    for index in 0..placed.len() {
        if placed[index] == Axis::One {
            placed[index] = *first;
            place(rest, placed, visit);
            placed[index] = Axis::One;
        }
    }
}

/// The same axes with the other order of heads and dimensions, if heads are known.
pub(crate) fn other_head_order(axes: &Axes, heads: Option<usize>) -> Option<Axes> {
    heads.filter(|heads| *heads > 1)?;
    let mut changed = false;
    let swapped = axes.iter().map(|axis| {
        let other = match axis {
            Axis::Word(Word::Value) | Axis::HeadDim => Axis::DimHead,
            Axis::DimHead => Axis::HeadDim,
            same => same,
        };
        changed |= other != axis;
        other
    });
    let swapped = Axes::new(swapped.collect());
    changed.then_some(swapped)
}

/// How one reading of an array differs from the map's, in words.
pub(crate) fn difference(map: &Axes, other: &Axes, shape: &[usize]) -> String {
    let swapped = map.over(shape).ok().and_then(|own| {
        let theirs: Vec<Axis> = other.iter().collect();
        let changed: Vec<usize> = (0..own.len()).filter(|index| own[*index] != theirs[*index]).collect();
        match changed[..] {
            [a, b] if own[a] == theirs[b] && own[b] == theirs[a] => Some(format!("swapping axes {a} and {b}")),
            _ => None,
        }
    });
    match swapped {
        Some(swapped) => format!("{swapped} (axes = \"{other}\")"),
        None => format!("reading it as axes = \"{other}\""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fits(text: &str, shape: &[usize], expected: &Expected) -> Vec<String> {
        let axes = Axes::parse(text).expect("valid");
        readings(&axes, shape, expected, 1).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn sizes_tell_how_an_array_could_be_read() {
        let rows = Expected { rows: Some(5), ..Expected::default() };
        assert_eq!(fits("row value", &[7, 5], &rows), ["value row"]);
        assert_eq!(fits("1 row value", &[5, 7], &rows), ["row value"], "a batch axis that is not there");
        assert_eq!(fits("row value", &[1, 1, 5, 7], &rows), ["1 1 row value"], "batch axes that are there");
        assert_eq!(fits("row value", &[8, 7], &rows), [] as [&str; 0]);
        let square = Expected { rows: Some(5), values: Some(5), ..Expected::default() };
        assert_eq!(fits("row value", &[5, 5], &square), ["value row"], "sizes alone cannot tell");
        let heads = Expected { rows: Some(5), heads: Some(2), inner: Some(4), ..Expected::default() };
        assert_eq!(fits("row head dim", &[2, 4, 5], &heads), ["head dim row"]);
        assert_eq!(fits("row value", &[1; 9], &rows), [] as [&str; 0], "too many axes to try");
    }

    #[test]
    fn a_difference_is_said_as_a_person_would() {
        let axes = |text| Axes::parse(text).expect("valid");
        let says = |map, other, shape: &[usize]| difference(&axes(map), &axes(other), shape);
        assert_eq!(says("1 row value", "1 value row", &[1, 2, 3]), "swapping axes 1 and 2 (axes = \"1 value row\")");
        assert_eq!(says("row value", "1 row value", &[1, 2, 3]), "reading it as axes = \"1 row value\"");
        assert_eq!(other_head_order(&axes("row value"), Some(2)), Some(axes("row (dim head)")));
        assert_eq!(other_head_order(&axes("row (dim head)"), Some(2)), Some(axes("row (head dim)")));
        assert_eq!(other_head_order(&axes("row value"), None), None);
        assert_eq!(other_head_order(&axes("row head dim"), Some(2)), None);
    }
}
