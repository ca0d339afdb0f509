//! Whether the arm makes the reference's choice, and when a difference decides nothing.

use fidelity_verdict::Agreement;

use crate::logits::choice;

/// More ids than this on one level are no tie: the arm's row is then flat, not undecided.
const MAX_SHARED: usize = 5;

/// Ids among which top-5 looks.
const TOP: usize = 5;

/// Noise beyond this share of a row's spread (highest − lowest of the reference's logits) makes no more ties: float32 is off by
/// about 1e-6 of it, and a reference that is off by more must not excuse the arm.
const MAX_NOISE: f64 = 1e-3;

/// The grid the arm's logits lie on: one step a shard, shards of equal width (the last may be narrower).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid<'a> {
    steps: &'a [f64],
}

impl<'a> Grid<'a> {
    /// The grid of `steps`; none when absent.
    pub(crate) fn new(steps: Option<&'a [f64]>) -> Self {
        Self { steps: steps.unwrap_or_default() }
    }

    /// This grid if the row lies on it; none otherwise, for a step that is stale or wrong must not turn flips into ties.
    pub(crate) fn if_it_holds(self, row: &[f32]) -> Self {
        let width = row.len().div_ceil(self.steps.len().max(1)).max(1);
        let shards = row.chunks(width).zip(self.steps);
        let holds = shards.into_iter().all(|(shard, step)| on_grid(shard, *step));
        if holds { self } else { Self { steps: &[] } }
    }

    /// Half the coarser step of the two ids' shards; 0 when the grid is not known.
    fn half_step(self, ids: [usize; 2], vocabulary: usize) -> f64 {
        if self.steps.is_empty() {
            return 0.0;
        }
        let width = vocabulary.div_ceil(self.steps.len()).max(1);
        let step = |id: usize| self.steps.get(id / width).copied().filter(|step| step.is_finite()).unwrap_or(0.0);
        ids.map(step).into_iter().fold(0.0, f64::max) / 2.0
    }
}

/// Whether values are whole steps apart, within what float32 and a grid through another zero leave (a tenth of a step).
fn on_grid(values: &[f32], step: f64) -> bool {
    let Some(first) = values.first().map(|value| f64::from(*value)) else { return true };
    step > 0.0
        && values.iter().all(|value| {
            let steps = (f64::from(*value) - first) / step;
            (steps - steps.round()).abs() <= 0.1
        })
}

/// Compares the first choices of two finite rows, the arm's not constant.
///
/// Agree: the same id. Tie: another id, and either the reference's gap between the two ids is at most 2 × `noise` (the
/// reference's own error per logit, at most [`MAX_NOISE`] of the row's spread: two logits may both be off by it, towards
/// each other), or at most [`MAX_SHARED`] ids
/// lie within half a step below the arm's highest value and the reference's choice is one of them. Flip: everything else.
pub(crate) fn top1(reference: &[f32], device: &[f32], noise: f64, grid: Grid<'_>) -> Agreement {
    let (wanted, found) = (choice(reference), choice(device));
    if wanted == found {
        return Agreement::Agree;
    }
    let gap = f64::from(reference[wanted]) - f64::from(reference[found]);
    if gap <= 2.0 * within_spread(noise, reference) {
        return Agreement::Tie;
    }
    let level = f64::from(device[found]) - grid.half_step([wanted, found], device.len());
    let shared = device.iter().filter(|value| f64::from(**value) >= level).count();
    tie_if(f64::from(device[wanted]) >= level && shared <= MAX_SHARED)
}

/// `noise` as far as it makes ties; NaN stays NaN and makes none.
fn within_spread(noise: f64, row: &[f32]) -> f64 {
    let widen = |[low, high]: [f32; 2], value: &f32| [low.min(*value), high.max(*value)];
    let [low, high] = row.iter().fold([f32::INFINITY, f32::NEG_INFINITY], widen);
    let limit = MAX_NOISE * (f64::from(high) - f64::from(low));
    if noise > limit { limit } else { noise }
}

/// Looks for the reference's choice among the arm's five highest, both rows finite and the arm's not constant.
///
/// Agree: it is among them (the lowest ids first where values are equal). Tie: it is not, but lies no further than half a
/// step below the fifth highest value, and at most [`MAX_SHARED`] ids lie within half a step of that value. Flip: else.
pub(crate) fn top5(reference: &[f32], device: &[f32], grid: Grid<'_>) -> Agreement {
    let wanted = choice(reference);
    let top = highest(device);
    if top.contains(&wanted) {
        return Agreement::Agree;
    }
    let Some(fifth) = top.last().copied() else { return Agreement::Flip };
    let half_step = grid.half_step([wanted, fifth], device.len());
    let level = f64::from(device[fifth]);
    let shared = device.iter().filter(|value| (f64::from(**value) - level).abs() <= half_step).count();
    tie_if(f64::from(device[wanted]) >= level - half_step && shared <= MAX_SHARED)
}

fn tie_if(tie: bool) -> Agreement {
    if tie { Agreement::Tie } else { Agreement::Flip }
}

/// The [`TOP`] highest ids, highest first, the lower id first where values are equal.
fn highest(row: &[f32]) -> Vec<usize> {
    let mut top: Vec<usize> = Vec::with_capacity(TOP + 1);
    for (index, value) in row.iter().enumerate() {
        let beaten = top.len() == TOP && row[top[TOP - 1]] >= *value;
        if !beaten {
            let place = top.iter().position(|other| row[*other] < *value).unwrap_or(top.len());
            top.insert(place, index);
            top.truncate(TOP);
        }
    }
    top
}

#[cfg(test)]
mod tests {
    use super::*;
    use Agreement::{Agree, Flip, Tie};

    const NO_GRID: Grid<'static> = Grid { steps: &[] };

    #[test]
    fn a_gap_inside_the_references_noise_is_a_tie() {
        let (reference, device) = ([1.0, 1.01, -9.0], [2.0, 1.0, 0.0]);
        assert_eq!(top1(&reference, &device, 0.006, NO_GRID), Tie);
        assert_eq!(top1(&reference, &device, 0.004, NO_GRID), Flip);
        assert_eq!(top1(&reference, &device, f64::NAN, NO_GRID), Flip);
        assert_eq!(top1(&device, &device, 0.0, NO_GRID), Agree);
    }

    #[test]
    fn noise_beyond_a_thousandth_of_the_spread_makes_no_more_ties() {
        let device = [2.0, 1.0, 0.0];
        assert_eq!(top1(&[9.985, 10.0, 0.0], &device, 5.0, NO_GRID), Tie);
        assert_eq!(top1(&[9.975, 10.0, 0.0], &device, 5.0, NO_GRID), Flip);
    }

    #[test]
    fn a_step_that_the_row_does_not_lie_on_is_no_grid() {
        let row = [0.5, 1.0, -2.0, 3.5];
        assert_eq!(Grid::new(Some(&[0.5])).if_it_holds(&row).steps, [0.5]);
        assert!(Grid::new(Some(&[1.5])).if_it_holds(&row).steps.is_empty());
        assert!(Grid::new(Some(&[0.5, 0.0])).if_it_holds(&row).steps.is_empty());
        assert_eq!(Grid::new(Some(&[0.5, 5.5])).if_it_holds(&row).steps, [0.5, 5.5], "each shard has its own");
    }

    #[test]
    fn ids_on_the_arms_highest_level_tie() {
        let reference = [0.0, 0.0, 9.0, 0.0];
        assert_eq!(top1(&reference, &[5.0, 1.0, 5.0, 1.0], 0.0, NO_GRID), Tie);
        assert_eq!(top1(&reference, &[5.0, 1.0, 4.9, 1.0], 0.0, NO_GRID), Flip);
    }

    #[test]
    fn more_than_five_ids_on_a_level_are_no_tie() {
        let mut reference = [0.0; 12];
        reference[4] = 9.0;
        let level = |shared: usize| -> Vec<f32> { (0..12).map(|id| if id < shared { 3.0 } else { 0.0 }).collect() };
        assert_eq!(top1(&reference, &level(5), 0.0, NO_GRID), Tie);
        assert_eq!(top1(&reference, &level(6), 0.0, NO_GRID), Flip);
    }

    #[test]
    fn the_coarser_step_of_the_two_shards_counts() {
        let reference = [0.0, 0.0, 9.0, 0.0];
        let device = [5.0, 1.0, 4.9, 1.0];
        assert_eq!(top1(&reference, &device, 0.0, Grid { steps: &[0.25, 0.01] }), Tie);
        assert_eq!(top1(&reference, &device, 0.0, Grid { steps: &[0.01, 0.25] }), Tie);
        assert_eq!(top1(&reference, &device, 0.0, Grid { steps: &[0.01, 0.01] }), Flip);
        assert_eq!(top1(&reference, &device, 0.0, Grid { steps: &[f64::INFINITY] }), Flip);
    }

    #[test]
    fn shards_are_as_wide_as_the_vocabulary_divided_up() {
        // 5 ids in 2 shards: 3 and 2.
        let grid = Grid { steps: &[2.0, 8.0] };
        let half_steps = |grid: Grid<'_>| [2, 3, 4].map(|id| Some(grid.half_step([id, id], 5)));
        assert_eq!(half_steps(grid), [Some(1.0), Some(4.0), Some(4.0)]);
        assert_eq!(half_steps(Grid::new(None)), [Some(0.0); 3]);
    }

    #[test]
    fn the_highest_come_in_order_and_equal_values_by_id() {
        assert_eq!(highest(&[1.0, 7.0, 7.0, 3.0, 9.0, 7.0, 8.0, 3.0]), [4, 6, 1, 2, 5]);
        assert_eq!(highest(&[1.0, 2.0]), [1, 0]);
    }

    #[test]
    fn top5_sees_rank_then_the_fifth_level() {
        let mut reference = [0.0; 8];
        reference[7] = 1.0;
        let device = |last: [f32; 3]| [9.0, 8.0, 7.0, 6.0, 5.0, last[0], last[1], last[2]];
        assert_eq!(top5(&reference, &device([0.0, 0.0, 5.5]), NO_GRID), Agree);
        assert_eq!(top5(&reference, &device([0.0, 0.0, 5.0]), NO_GRID), Tie);
        assert_eq!(top5(&reference, &device([0.0, 0.0, 4.9]), NO_GRID), Flip);
        assert_eq!(top5(&reference, &device([0.0, 0.0, 4.9]), Grid { steps: &[0.25] }), Tie);
        // Two values share a level, then six.
        assert_eq!(top5(&reference, &[9.0, 8.0, 5.0, 5.0, 5.0, 0.0, 5.0, 5.0], NO_GRID), Tie);
        assert_eq!(top5(&reference, &[9.0, 5.0, 5.0, 5.0, 5.0, 0.0, 5.0, 5.0], NO_GRID), Flip);
        assert_eq!(top5(&[0.0, 1.0], &[1.0, 0.0], NO_GRID), Agree);
    }

    #[test]
    fn an_eight_bit_grid_ties_where_codes_are_equal() {
        // Codes of one byte at step 0.11: the reference's choice and another id fall on the highest code.
        let step = 0.11;
        let reference: Vec<f32> = (0..40).map(|id| if id == 30 { 20.02 } else { 0.4 * id as f32 }).collect();
        let mut exact = reference.clone();
        exact[3] = 20.04;
        let device: Vec<f32> = exact.iter().map(|logit| ((f64::from(*logit) / step).round() * step) as f32).collect();
        assert_eq!(top1(&reference, &device, 0.0, Grid { steps: &[step] }), Tie);
        assert_eq!(top5(&reference, &device, Grid { steps: &[step] }), Agree);
    }
}
