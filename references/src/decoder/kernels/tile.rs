//! Tiles of a product in registers.

use pulp::{Arch, Simd, WithSimd};

use super::prefetch::prefetch;

/// Terms of a dot product that are summed in one go; the sums of blocks are then added, which keeps the error of long sums
/// small (Higham 1993).
pub(super) const SUM_BLOCK: usize = 128;

/// Output channels of a panel.
pub(super) const PANEL: usize = 32;
pub(super) const HALF: usize = PANEL / 2;

/// Rows whose values stay in the cache beside a panel.
const ROWS_AT_ONCE: usize = 192;

/// Memory is asked for the channels of so many inputs further on, so that it answers while registers work.
const AHEAD: usize = 128;

/// Rows from which widening a panel once pays.
const WORTH_WIDENING: usize = 36;

/// How a panel stores the channels of an input.
pub(super) trait Panel: Copy + Default + Send + Sync {
    /// Elements that the channels of one input take.
    const WIDTH: usize;

    /// As many elements as a register has lanes.
    type Vector<S: Simd>: Copy;

    fn vectors<S: Simd>(panel: &[Self]) -> &[Self::Vector<S>];

    /// Channels `group · lanes..` of either half.
    fn channels<S: Simd>(simd: S, input: &[Self::Vector<S>], group: usize) -> [S::f32s; 2];

    /// Writes the same channels in float32; false where they are that already.
    fn widen<S: Simd>(simd: S, panel: &[Self], floats: &mut [f32]) -> bool;
}

impl Panel for f32 {
    const WIDTH: usize = PANEL;
    type Vector<S: Simd> = S::f32s;

    #[inline(always)]
    fn vectors<S: Simd>(panel: &[Self]) -> &[S::f32s] {
        S::as_simd_f32s(panel).0
    }

    #[inline(always)]
    fn channels<S: Simd>(_: S, input: &[S::f32s], group: usize) -> [S::f32s; 2] {
        [input[group], input[group + HALF / S::F32_LANES]]
    }

    #[inline(always)]
    fn widen<S: Simd>(_: S, _: &[Self], _: &mut [f32]) -> bool {
        false
    }
}

impl Panel for u32 {
    const WIDTH: usize = HALF;
    type Vector<S: Simd> = S::u32s;

    #[inline(always)]
    fn vectors<S: Simd>(panel: &[Self]) -> &[S::u32s] {
        S::as_simd_u32s(panel).0
    }

    #[inline(always)]
    fn channels<S: Simd>(simd: S, input: &[S::u32s], group: usize) -> [S::f32s; 2] {
        let low = simd.wrapping_dyn_shl_u32s(input[group], simd.splat_u32s(16));
        let high = simd.and_u32s(input[group], simd.splat_u32s(0xffff_0000));
        [simd.transmute_f32s_u32s(low), simd.transmute_f32s_u32s(high)]
    }

    #[inline(always)]
    fn widen<S: Simd>(simd: S, panel: &[Self], floats: &mut [f32]) -> bool {
        let groups = HALF / S::F32_LANES;
        let floats = S::as_mut_simd_f32s(floats).0;
        for (to, input) in floats.chunks_exact_mut(2 * groups).zip(Self::vectors::<S>(panel).chunks_exact(groups)) {
            for group in 0..groups {
                (to[group], to[group + groups]) = Self::channels(simd, input, group).into();
            }
        }
        true
    }
}

/// Rows `x` `[row, in]` and where their products go: `width` values of each row of `y`.
pub(super) struct Rows<'a, 'y> {
    pub(super) x: &'a [f32],
    pub(super) y: &'a mut [&'y mut [f32]],
    pub(super) inputs: usize,
    pub(super) bias: Option<&'a [f32]>,
    pub(super) width: usize,
}

impl Rows<'_, '_> {
    /// y = x·Wᵀ + b, W in panels.
    pub(super) fn through<P: Panel>(self, panels: &[P]) {
        let Self { x, y, inputs, bias, width } = self;
        if inputs == 0 || width == 0 {
            return;
        }
        let blocks = x.chunks(ROWS_AT_ONCE * inputs).zip(y.chunks_mut(ROWS_AT_ONCE));
        for (x, y) in blocks {
            Arch::new().dispatch(Block { rows: Rows { x, y, inputs, bias, width }, panels });
        }
    }
}

struct Block<'a, 'y, P> {
    rows: Rows<'a, 'y>,
    panels: &'a [P],
}

impl<P: Panel> WithSimd for Block<'_, '_, P> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { rows: Rows { x, y, inputs, bias, width }, panels } = self;
        let rows = x.len() / inputs;
        // As many sums as registers hold beside a row of channels.
        let largest = if S::REGISTER_COUNT >= 32 { 12 } else { 6 };
        let turned = turned(x, inputs, rows, largest);
        let mut floats = [0.0; SUM_BLOCK * PANEL];
        for (index, panel) in panels.chunks_exact(inputs * P::WIDTH).enumerate() {
            let start = index * PANEL;
            let columns = PANEL.min(width - start);
            let bias = bias.map(|bias| &bias[start..start + columns]);
            for (block, panel) in panel.chunks(SUM_BLOCK * P::WIDTH).enumerate() {
                let first = block * SUM_BLOCK;
                let count = panel.len() / P::WIDTH;
                let bias = bias.filter(|_| first + count == inputs);
                let mut y = Columns { y: &mut *y, start, count: columns, begins: first == 0, bias };
                let x = Terms { turned: &turned, rows, largest, inputs, first, count };
                match rows >= WORTH_WIDENING && P::widen(simd, panel, &mut floats) {
                    true => x.times(simd, &floats[..count * PANEL], &mut y),
                    false => x.times(simd, panel, &mut y),
                }
            }
        }
    }
}

/// Where tiles begin and how many rows they have.
#[inline(always)]
fn tiles(rows: usize, largest: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut start = 0;
    std::iter::from_fn(move || {
        let size = [largest, 4, 2, 1].into_iter().find(|size| *size <= rows - start)?;
        start += size;
        Some((start - size, size))
    })
}

/// Tile after tile, the values of each `[in, row]`.
#[inline(always)]
fn turned(x: &[f32], inputs: usize, rows: usize, largest: usize) -> Vec<f32> {
    let mut turned = vec![0.0; x.len()];
    for (start, size) in tiles(rows, largest) {
        let to = &mut turned[start * inputs..(start + size) * inputs];
        let x = &x[start * inputs..(start + size) * inputs];
        for (input, to) in to.chunks_exact_mut(size).enumerate() {
            to.iter_mut().zip(x[input..].iter().step_by(inputs)).for_each(|(to, x)| *to = *x);
        }
    }
    turned
}

/// Columns `start..start + count` of the rows of `y`.
struct Columns<'a, 'y> {
    y: &'a mut [&'y mut [f32]],
    start: usize,
    count: usize,
    /// What is there is written over, not added to.
    begins: bool,
    /// Added at the end.
    bias: Option<&'a [f32]>,
}

impl Columns<'_, '_> {
    #[inline(always)]
    fn add(&mut self, row: usize, sums: &[[f32; PANEL]]) {
        for (y, sums) in self.y[row..].iter_mut().zip(sums) {
            let y = &mut y[self.start..][..self.count];
            match self.begins {
                true => y.copy_from_slice(&sums[..self.count]),
                false => y.iter_mut().zip(sums).for_each(|(y, sum)| *y += sum),
            }
            if let Some(bias) = self.bias {
                y.iter_mut().zip(bias).for_each(|(y, bias)| *y += bias);
            }
        }
    }
}

/// Inputs `first..first + count` of rows.
struct Terms<'a> {
    turned: &'a [f32],
    rows: usize,
    largest: usize,
    inputs: usize,
    first: usize,
    count: usize,
}

impl Terms<'_> {
    /// Adds the sums of tile after tile to `y`.
    #[inline(always)]
    fn times<S: Simd, P: Panel>(&self, simd: S, panel: &[P], y: &mut Columns<'_, '_>) {
        for (start, size) in tiles(self.rows, self.largest) {
            let x = &self.turned[start * self.inputs + self.first * size..][..self.count * size];
            // Later tiles find the panel in the cache.
            let first = start == 0;
            match size {
                12 => y.add(start, &tile::<S, P, 12>(simd, x, panel, first)),
                6 => y.add(start, &tile::<S, P, 6>(simd, x, panel, first)),
                4 => y.add(start, &tile::<S, P, 4>(simd, x, panel, first)),
                2 => y.add(start, &tile::<S, P, 2>(simd, x, panel, first)),
                _ => y.add(start, &tile::<S, P, 1>(simd, x, panel, first)),
            }
        }
    }
}

/// R rows of a product with a panel, which comes from memory if this is its `first` tile. A sum's terms come in the order of the
/// inputs, whatever R is.
#[inline(always)]
fn tile<S: Simd, P: Panel, const R: usize>(simd: S, x: &[f32], panel: &[P], first: bool) -> [[f32; PANEL]; R] {
    let mut y = [[0.0; PANEL]; R];
    let (vectors, groups) = (P::WIDTH / S::F32_LANES, HALF / S::F32_LANES);
    for group in 0..groups {
        let mut sums = [[simd.splat_f32s(0.0); 2]; R];
        for (x, input) in x.as_chunks::<R>().0.iter().zip(P::vectors::<S>(panel).chunks_exact(vectors)) {
            if first {
                (0..vectors).for_each(|vector| prefetch(input, AHEAD * vectors + vector));
            }
            let [low, high] = P::channels(simd, input, group);
            for (sums, x) in sums.iter_mut().zip(x) {
                let x = simd.splat_f32s(*x);
                *sums = [simd.mul_add_e_f32s(x, low, sums[0]), simd.mul_add_e_f32s(x, high, sums[1])];
            }
        }
        for (y, sums) in y.iter_mut().zip(sums) {
            let y = S::as_mut_simd_f32s(y).0;
            (y[group], y[group + groups]) = sums.into();
        }
    }
    y
}
