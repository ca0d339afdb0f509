//! One site of one file: its arrays, in the order of a trace.

use fidelity_trace::{Scope, Site};
use ndarray::{ArrayD, Axis as Index, Slice};

use super::{
    archive::Archive,
    array::{Dtype, Values, exact},
    axes::{Axes, join},
    correlate::{Pair, correlation},
    error::ImportError,
    fit::{difference, other_head_order, readings},
    map::{Code, SiteMap, Take},
    shapes::Expected,
};

/// Rows that correlate this much are laid out alike: a wrong order of axes is near 0, whatever a recipe does is above.
const ALIKE: f64 = 0.9;

/// Readings named in an error.
const NAMED: usize = 4;

/// A site to be read from a file.
pub(crate) struct Wanted<'a> {
    pub(crate) scope: Scope,
    pub(crate) site: Site,
    pub(crate) map: &'a SiteMap,
    /// The arrays that make it up.
    pub(crate) arrays: Vec<String>,
    pub(crate) expected: Expected,
}

/// The reference's rows that the site's should be like, by number of rows of the site.
pub(crate) type Pairs<'a, 'r> = &'a dyn Fn(usize) -> Vec<Pair<'r>>;

impl Wanted<'_> {
    /// The site as `[prompt, row, …]`. Refused when its shape does not fit, or when another reading is like the reference and
    /// the map's is not.
    pub(crate) fn load(&self, archive: &mut Archive, pairs: Option<Pairs<'_, '_>>) -> Result<ArrayD<f32>, ImportError> {
        let shards = self.read(archive)?;
        let wrong = |reason: String| ImportError::Layout {
            path: archive.path().to_owned(),
            place: format!("{}/{}", self.scope, self.site),
            reason,
        };
        let arranged = match self.arranged(&shards, &self.map.axes) {
            Ok(arranged) => arranged,
            Err(reason) => return Err(wrong(self.explained(&shards, &reason, pairs))),
        };
        match pairs.and_then(|pairs| self.better(&shards, &arranged, pairs)) {
            Some(reason) => Err(wrong(reason)),
            None => Ok(arranged),
        }
    }

    /// Whether any of its arrays is float64, which is rounded.
    pub(crate) fn rounds(&self, archive: &mut Archive) -> Result<bool, ImportError> {
        let mut dtypes = self.arrays.iter().map(|name| archive.header(name).map(|header| header.dtype));
        dtypes.try_fold(false, |rounds, dtype| Ok(rounds || dtype? == Dtype::Float64))
    }

    fn read(&self, archive: &mut Archive) -> Result<Vec<ArrayD<f32>>, ImportError> {
        let codes = self.map.codes.as_deref();
        let arrays = self.arrays.iter().enumerate().map(|(index, name)| {
            let values = archive.read(name)?;
            numbers(values, codes.map(|codes| codes[index])).map_err(|reason| archive.wrong(name, reason))
        });
        arrays.collect()
    }

    /// `shards` read with `axes`, checked against what is expected.
    fn arranged(&self, shards: &[ArrayD<f32>], axes: &Axes) -> Result<ArrayD<f32>, String> {
        let heads = self.map.heads.or(self.expected.heads);
        let arranged: Vec<_> = shards.iter().map(|shard| axes.arrange(shard, heads)).collect::<Result<_, _>>()?;
        let taken = take(join(arranged)?, self.map.take)?;
        let shape = taken.shape();
        let unlike = |what: &str, found: usize, expected: Option<usize>, by: &str| {
            let expected = expected.filter(|expected| *expected != found)?;
            let shapes: Vec<_> = shards.iter().map(ArrayD::shape).collect();
            let shapes = if let [shape] = shapes[..] { format!("{shape:?}") } else { format!("{shapes:?}") };
            Some(format!("shape {shapes} read as axes = \"{axes}\": {found} {what}, {by} {expected}"))
        };
        let values: usize = shape[2..].iter().product();
        let by = format!("{} has", self.expected.by);
        let differs = unlike("prompts", shape[0], self.expected.prompts, "the file has")
            .or_else(|| unlike("rows", shape[1], self.expected.rows, "its positions are"))
            .or_else(|| unlike("values a row", values, self.expected.values, &by))
            .or_else(|| unlike("heads", shape[2], self.expected.heads.filter(|_| shape.len() > 3), &by));
        match differs {
            Some(reason) => Err(reason),
            None if values == 0 => Err("its rows hold no values".into()),
            None => Ok(taken),
        }
    }

    /// Why the map's reading does not fit, and what would.
    fn explained(&self, shards: &[ArrayD<f32>], reason: &str, pairs: Option<Pairs<'_, '_>>) -> String {
        let Some(shape) = shards.first().map(ArrayD::shape) else { return reason.to_owned() };
        let fitting: Vec<(Axes, ArrayD<f32>)> = readings(&self.map.axes, shape, &self.loosely(), shards.len())
            .into_iter()
            .filter_map(|axes| self.arranged(shards, &axes).ok().map(|arranged| (axes, arranged)))
            .collect();
        if fitting.is_empty() {
            return format!("{reason}; no order of its axes fits");
        }
        let alike = pairs.and_then(|pairs| best(&fitting, pairs));
        if let Some((axes, correlation)) = alike.filter(|(_, correlation)| *correlation >= ALIKE) {
            let difference = difference(&self.map.axes, axes, shape);
            return format!("{reason}; looks transposed: correlation {correlation:.4} after {difference}");
        }
        let named: Vec<_> = fitting.iter().take(NAMED).map(|(axes, _)| format!("axes = \"{axes}\"")).collect();
        format!("{reason}; its sizes would fit as {}", named.join(" or "))
    }

    /// With `take`, the rows of the file are not those of the trace.
    fn loosely(&self) -> Expected {
        Expected { rows: self.expected.rows.filter(|_| self.map.take == Take::All), ..self.expected.clone() }
    }

    /// Says so when another reading is like the reference and the map's is not.
    fn better(&self, shards: &[ArrayD<f32>], arranged: &ArrayD<f32>, pairs: Pairs<'_, '_>) -> Option<String> {
        let as_mapped = correlation(&arranged.view(), &pairs(arranged.shape()[1])).filter(|found| *found < ALIKE)?;
        let shape = shards.first()?.shape();
        let mut others = readings(&self.map.axes, shape, &self.loosely(), shards.len());
        let heads = self.map.heads.or(self.expected.heads);
        let orders: Vec<Axes> =
            others.iter().chain([&self.map.axes]).filter_map(|axes| other_head_order(axes, heads)).collect();
        others.extend(orders);
        let fitting: Vec<(Axes, ArrayD<f32>)> = others
            .into_iter()
            .filter_map(|axes| self.arranged(shards, &axes).ok().map(|arranged| (axes, arranged)))
            .collect();
        if let Some((axes, found)) = best(&fitting, pairs).filter(|(_, found)| *found >= ALIKE) {
            let difference = match axes.over(shape) {
                Ok(placed) => difference(&self.map.axes, &Axes::new(placed), shape),
                Err(_) => format!("reading it as axes = \"{axes}\""),
            };
            return Some(format!(
                "looks transposed: correlation {found:.4} after {difference}, {as_mapped:.4} as mapped"
            ));
        }
        self.other_order_of_shards(shards, pairs, as_mapped)
    }

    fn other_order_of_shards(&self, shards: &[ArrayD<f32>], pairs: Pairs<'_, '_>, as_mapped: f64) -> Option<String> {
        let order = order_of_shards(shards, &|order| {
            let shards: Vec<_> = order.iter().map(|index| shards[*index].clone()).collect();
            let arranged = self.arranged(&shards, &self.map.axes).ok()?;
            correlation(&arranged.view(), &pairs(arranged.shape()[1]))
        })?;
        let (order, found) = order;
        let names: Vec<_> =
            order.iter().map(|index| format!("\"{}\"", super::error::shown(&self.arrays[*index]))).collect();
        (found >= ALIKE).then(|| {
            format!(
                "the arrays look joined in the wrong order: correlation {found:.4} with arrays = [{}], {as_mapped:.4} as mapped",
                names.join(", ")
            )
        })
    }
}

/// The reading that is most like the reference.
fn best<'f>(fitting: &'f [(Axes, ArrayD<f32>)], pairs: Pairs<'_, '_>) -> Option<(&'f Axes, f64)> {
    let alike = fitting
        .iter()
        .filter_map(|(axes, arranged)| Some((axes, correlation(&arranged.view(), &pairs(arranged.shape()[1]))?)));
    alike.max_by(|a, b| a.1.total_cmp(&b.1))
}

/// The best order found by swapping two arrays at a time, as long as that helps.
fn order_of_shards(shards: &[ArrayD<f32>], judge: &dyn Fn(&[usize]) -> Option<f64>) -> Option<(Vec<usize>, f64)> {
    /// More arrays than this are left as they are.
    const MAX_SHARDS: usize = 16;
    if !(2..=MAX_SHARDS).contains(&shards.len()) {
        return None;
    }
    let mut order: Vec<usize> = (0..shards.len()).collect();
    let mut best = judge(&order)?;
    loop {
        let swaps = (0..order.len()).flat_map(|a| (a + 1..shards.len()).map(move |b| (a, b)));
        let tried = swaps.filter_map(|(a, b)| {
            let mut other = order.clone();
            other.swap(a, b);
            judge(&other).map(|found| (other, found))
        });
        match tried.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, found)| *found > best + 1e-6) {
            Some((other, found)) => (order, best) = (other, found),
            None => return Some((order, best)),
        }
    }
}

/// Floats as they are; integers only as the codes that the map says they are.
fn numbers(values: Values, code: Option<Code>) -> Result<ArrayD<f32>, String> {
    match (values, code) {
        (Values::Floats(floats), None) => Ok(floats),
        (Values::Floats(_), Some(_)) => Err("holds floats; `scale` and `zero_point` are for integer codes, drop them".into()),
        (Values::Integers(_), None) => Err(
            "holds integers, which may be quantised codes; add `scale` and `zero_point` (1 and 0 if they are the values)".into(),
        ),
        (Values::Integers(codes), Some(Code { scale, zero_point })) => {
            if let Some(code) = codes.iter().find(|code| exact(**code).is_none()) {
                return Err(format!("holds {code}, which is no code: above 2^24"));
            }
            Ok(codes.mapv(|code| (scale * (f64::from(exact(code).unwrap_or_default()) - zero_point)) as f32))
        }
    }
}

fn take(mut arranged: ArrayD<f32>, rows: Take) -> Result<ArrayD<f32>, String> {
    let held = arranged.shape()[1];
    let (from, to) = match rows {
        Take::All => return Ok(arranged),
        Take::Last => (held.saturating_sub(1), held),
        Take::Range { from, to } => (from, to.unwrap_or(held.max(from))),
    };
    if to > held.max(from) {
        return Err(format!("`take` ends at row {to}, but there are {held} rows"));
    }
    arranged.slice_axis_inplace(Index(1), Slice::from(from.min(held)..to.min(held)));
    Ok(arranged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::IxDyn;

    #[test]
    fn integers_are_numbers_only_if_the_map_says_how() {
        let codes = || Values::Integers(ArrayD::from_shape_vec(IxDyn(&[3]), vec![0, 128, 255]).expect("as many"));
        let code = Some(Code { scale: 0.5, zero_point: 128.0 });
        assert_eq!(numbers(codes(), code).map(|it| it.into_iter().collect::<Vec<_>>()), Ok(vec![-64.0, 0.0, 63.5]));
        assert!(numbers(codes(), None).is_err_and(|error| error.contains("quantised codes")));
        let floats = Values::Floats(ArrayD::zeros(IxDyn(&[3])));
        assert!(numbers(floats, code).is_err_and(|error| error.contains("holds floats")));
        let wide = Values::Integers(ArrayD::from_elem(IxDyn(&[1]), 1 << 40));
        assert!(numbers(wide, code).is_err_and(|error| error.contains("no code")));
    }

    #[test]
    fn rows_are_taken_from_where_the_map_says() {
        let rows = |take_: Take| {
            let array = ArrayD::from_shape_vec(IxDyn(&[1, 4, 1]), vec![0., 1., 2., 3.]).expect("as many");
            take(array, take_).map(|it| it.into_iter().collect::<Vec<_>>())
        };
        assert_eq!(rows(Take::All), Ok(vec![0., 1., 2., 3.]));
        assert_eq!(rows(Take::Last), Ok(vec![3.]));
        assert_eq!(rows(Take::Range { from: 0, to: Some(1) }), Ok(vec![0.]));
        assert_eq!(rows(Take::Range { from: 1, to: None }), Ok(vec![1., 2., 3.]));
        assert_eq!(rows(Take::Range { from: 4, to: None }), Ok(vec![]));
        assert_eq!(rows(Take::Range { from: 9, to: None }), Ok(vec![]));
        assert!(rows(Take::Range { from: 0, to: Some(5) }).is_err());
    }

    #[test]
    fn shards_in_a_wrong_order_find_theirs() {
        let shards = vec![ArrayD::zeros(IxDyn(&[1])); 4];
        let wanted = [2, 0, 3, 1];
        let judge = |order: &[usize]| Some(order.iter().zip(wanted).filter(|(a, b)| **a == *b).count() as f64 / 4.0);
        assert_eq!(order_of_shards(&shards, &judge), Some((wanted.to_vec(), 1.0)));
        assert_eq!(order_of_shards(&shards[..1], &judge), None);
    }
}
