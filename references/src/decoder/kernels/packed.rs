//! Weights in panels, in the order in which products read them.

use std::ops::Range;

use candle_core::{DType, Device, Result, Tensor};
use rayon::prelude::*;

use super::{
    Values,
    tile::{HALF, PANEL, Panel, Rows},
};

/// Rows that keep a core busy; with fewer, the cores share output channels instead.
const ROWS_A_TASK: usize = 24;

/// A matrix of weights W `[out, in]`, of which x·Wᵀ is computed.
pub(in super::super) struct Packed {
    inputs: usize,
    outputs: usize,
    panels: Panels,
}

/// Panel after panel, and in each input after input; channels past the last are zero.
enum Panels {
    /// Where every weight is exactly a bfloat16, as most checkpoints are stored: channels c and c + 16 in the low and the high half
    /// of a word. A step of one prompt takes as long as reading all weights does, so it takes half as long.
    Halves(Vec<u32>),
    Floats(Vec<f32>),
}

impl Packed {
    pub(in super::super) fn new(weight: &Tensor) -> Result<Self> {
        let (outputs, inputs) = weight.dims2()?;
        let weight = weight.contiguous()?;
        let values = Values::of(&weight)?;
        let bits = |panel: usize, input: usize, channel: usize| {
            let output = panel * PANEL + channel;
            if output < outputs { values[output * inputs + input].to_bits() } else { 0 }
        };
        let panels = if values.par_iter().all(|value| value.to_bits() & 0xffff == 0) {
            Panels::Halves(packed(outputs, inputs, |panel, input, channel| {
                bits(panel, input, channel) >> 16 | bits(panel, input, channel + HALF)
            }))
        } else {
            Panels::Floats(packed(outputs, inputs, |panel, input, channel| f32::from_bits(bits(panel, input, channel))))
        };
        Ok(Self { inputs, outputs, panels })
    }

    pub(in super::super) fn inputs(&self) -> usize {
        self.inputs
    }

    pub(in super::super) fn outputs(&self) -> usize {
        self.outputs
    }

    fn panels(&self) -> usize {
        self.outputs.div_ceil(PANEL)
    }

    fn channels(&self, panels: &Range<usize>) -> Range<usize> {
        panels.start * PANEL..self.outputs.min(panels.end * PANEL)
    }

    /// Channels of `panels` of x·Wᵀ + b, into the rows of `y`.
    fn fill(&self, panels: Range<usize>, x: &[f32], bias: Option<&[f32]>, y: &mut [&mut [f32]]) {
        let channels = self.channels(&panels);
        let bias = bias.map(|bias| &bias[channels.clone()]);
        let rows = Rows { x, y, inputs: self.inputs, bias, width: channels.len() };
        let start = panels.start * self.inputs;
        let end = panels.end * self.inputs;
        match &self.panels {
            Panels::Halves(words) => rows.through(&words[start * HALF..end * HALF]),
            Panels::Floats(floats) => rows.through(&floats[start * PANEL..end * PANEL]),
        }
    }

    /// Weights of inputs `start..start + count`, `[count, out]`.
    pub(in super::super) fn turned(&self, start: usize, count: usize, dtype: DType) -> Result<Tensor> {
        let mut turned = vec![0.0_f32; count * self.outputs];
        turned.par_chunks_mut(self.outputs.max(1)).enumerate().for_each(|(index, row)| {
            for (panel, to) in row.chunks_mut(PANEL).enumerate() {
                to.copy_from_slice(&self.weights(panel, start + index)[..to.len()]);
            }
        });
        Tensor::from_vec(turned, (count, self.outputs), &Device::Cpu)?.to_dtype(dtype)
    }

    /// Rows of W, `[row, in]`.
    pub(in super::super) fn rows(&self, outputs: &[u32]) -> Result<Tensor> {
        let mut rows = Vec::with_capacity(outputs.len() * self.inputs);
        for output in outputs {
            let (panel, channel) = (*output as usize / PANEL, *output as usize % PANEL);
            rows.extend((0..self.inputs).map(|input| self.weights(panel, input)[channel]));
        }
        super::tensor(rows, (outputs.len(), self.inputs))
    }

    /// Weights of a panel's channels for an input.
    fn weights(&self, panel: usize, input: usize) -> [f32; PANEL] {
        let at = panel * self.inputs + input;
        match &self.panels {
            Panels::Halves(words) => {
                let words = &words[at * HALF..(at + 1) * HALF];
                std::array::from_fn(|channel| match channel {
                    ..HALF => f32::from_bits(words[channel] << 16),
                    _ => f32::from_bits(words[channel - HALF] & 0xffff_0000),
                })
            }
            Panels::Floats(floats) => std::array::from_fn(|channel| floats[at * PANEL + channel]),
        }
    }
}

/// x·Wᵀ + b `[row, out]` of every matrix and its bias, of x `[row, in]`.
pub(in super::super) fn products(x: &Tensor, matrices: &[(&Packed, Option<&Tensor>)]) -> Result<Vec<Tensor>> {
    let (rows, _) = x.dims2()?;
    let x = x.contiguous()?;
    let x = Values::of(&x)?;
    let biases = matrices.iter().map(|(_, bias)| bias.map(Values::of).transpose()).collect::<Result<Vec<_>>>()?;
    let mut matrices: Vec<_> = matrices
        .iter()
        .zip(&biases)
        .map(|((packed, _), bias)| (*packed, bias.as_deref(), vec![0.0; rows * packed.outputs]))
        .collect();
    let cores = rayon::current_num_threads();
    if rows >= ROWS_A_TASK * cores {
        let rows_a_task = rows.div_ceil(cores);
        for (packed, bias, y) in &mut matrices {
            y.par_chunks_mut(rows_a_task * packed.outputs).zip(x.par_chunks(rows_a_task * packed.inputs)).for_each(
                |(y, x)| {
                    let mut y: Vec<&mut [f32]> = y.chunks_exact_mut(packed.outputs).collect();
                    packed.fill(0..packed.panels(), x, *bias, &mut y);
                },
            );
        }
    } else {
        let panels: usize = matrices.iter().map(|(packed, ..)| packed.panels()).sum();
        let shares = shares(matrices.iter().map(|(packed, ..)| packed.panels()), panels.div_ceil(cores).max(1));
        let mut tasks: Vec<Vec<Part<'_, '_>>> = shares.iter().map(|_| Vec::new()).collect();
        for (index, (packed, bias, y)) in matrices.iter_mut().enumerate() {
            let mut left: Vec<&mut [f32]> = y.chunks_exact_mut(packed.outputs.max(1)).collect();
            for (task, share) in tasks.iter_mut().zip(&shares) {
                for (_, panels) in share.iter().filter(|(of, _)| *of == index) {
                    let width = packed.channels(panels).len();
                    let y =
                        left.iter_mut().map(|row| row.split_off_mut(..width).expect("as wide as its panels")).collect();
                    task.push(Part { packed, bias: *bias, panels: panels.clone(), y });
                }
            }
        }
        tasks.par_iter_mut().flatten_iter().for_each(|part| {
            part.packed.fill(part.panels.clone(), &x, part.bias, &mut part.y);
        });
    }
    matrices.into_iter().map(|(packed, _, y)| super::tensor(y, (rows, packed.outputs))).collect()
}

/// Panels of a matrix that a task multiplies by, and their part of every row.
struct Part<'a, 'y> {
    packed: &'a Packed,
    bias: Option<&'a [f32]>,
    panels: Range<usize>,
    y: Vec<&'y mut [f32]>,
}

/// Cuts matrices of so many panels, one after another, into shares of `size` panels: the matrices and panels of each.
fn shares(panels: impl Iterator<Item = usize>, size: usize) -> Vec<Vec<(usize, Range<usize>)>> {
    let (mut shares, mut room) = (vec![Vec::new()], size);
    for (index, panels) in panels.enumerate() {
        let mut start = 0;
        while start < panels {
            if room == 0 {
                shares.push(Vec::new());
                room = size;
            }
            let end = panels.min(start + room);
            shares.last_mut().expect("never empty").push((index, start..end));
            (room, start) = (room - (end - start), end);
        }
    }
    shares
}

fn packed<T: Panel>(outputs: usize, inputs: usize, value: impl Fn(usize, usize, usize) -> T + Sync) -> Vec<T> {
    let mut packed = vec![T::default(); outputs.div_ceil(PANEL) * inputs * T::WIDTH];
    packed.par_chunks_mut((inputs * T::WIDTH).max(1)).enumerate().for_each(|(panel, to)| {
        for (input, to) in to.chunks_exact_mut(T::WIDTH).enumerate() {
            for (channel, to) in to.iter_mut().enumerate() {
                *to = value(panel, input, channel);
            }
        }
    });
    packed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Values in ±0.5, rounded to bfloat16 if asked.
    fn noise(count: usize, seed: u32, halves: bool) -> Vec<f32> {
        let mut state = seed;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = (f64::from(state) / f64::from(u32::MAX) - 0.5) as f32;
            if halves { f32::from_bits(value.to_bits() & 0xffff_0000) } else { value }
        };
        (0..count).map(|_| next()).collect()
    }

    fn matrix(values: &[f32], shape: (usize, usize)) -> Tensor {
        super::super::tensor(values.to_vec(), shape).expect("fits")
    }

    fn values(tensor: Result<Tensor>) -> Vec<f32> {
        tensor.and_then(|tensor| tensor.flatten_all()?.to_vec1()).expect("computes")
    }

    fn on(threads: usize, work: impl FnOnce() -> Vec<f32> + Send) -> Vec<f32> {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads").install(work)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn is_the_product_on_any_number_of_threads_and_rows(
            rows in 1_usize..220, inputs in 1_usize..300, outputs in 1_usize..100, seed: u32, halves: bool, biased: bool,
        ) {
            let (x, w) = (noise(rows * inputs, seed, false), noise(outputs * inputs, !seed, halves));
            let b = if biased { noise(outputs, seed ^ 7, false) } else { vec![0.0; outputs] };
            let packed = Packed::new(&matrix(&w, (outputs, inputs))).expect("packs");
            prop_assert_eq!(matches!(packed.panels, Panels::Halves(_)), halves || w.iter().all(|w| w.to_bits() & 0xffff == 0));
            let bias = super::super::tensor(b.clone(), outputs).expect("fits");
            let run = |threads, rows: Range<usize>| {
                let x = matrix(&x[rows.start * inputs..rows.end * inputs], (rows.len(), inputs));
                on(threads, || values(products(&x, &[(&packed, biased.then_some(&bias))]).map(|mut y| y.remove(0))))
            };
            let one = run(1, 0..rows);
            let bound = 1e-6 * (inputs as f64).sqrt();
            for (index, found) in one.iter().enumerate() {
                let (row, output) = (index / outputs, index % outputs);
                let terms = x[row * inputs..][..inputs].iter().zip(&w[output * inputs..][..inputs]);
                let exact = terms.map(|(x, w)| f64::from(*x) * f64::from(*w)).sum::<f64>() + f64::from(b[output]);
                prop_assert!((f64::from(*found) - exact).abs() <= bound, "{found} is not {exact}");
            }
            for threads in [2, 3, 7] {
                prop_assert!(run(threads, 0..rows) == one, "{threads} threads");
            }
            let (first, rest) = (run(2, 0..1), run(2, 1..rows));
            prop_assert!([first, rest].concat() == one, "a row alone");
        }

        #[test]
        fn several_at_once_are_each_alone(widths in proptest::collection::vec(1_usize..90, 1..5), rows in 1_usize..60, seed: u32) {
            let x = matrix(&noise(rows * 24, seed, false), (rows, 24));
            let packed = |outputs: &usize| Packed::new(&matrix(&noise(outputs * 24, !seed, true), (*outputs, 24)));
            let all: Vec<Packed> = widths.iter().map(packed).collect::<Result<_>>().expect("packs");
            let alone: Vec<f32> = all.iter().flat_map(|one| values(products(&x, &[(one, None)]).map(|mut y| y.remove(0)))).collect();
            for threads in [1, 2, 5] {
                let every: Vec<_> = all.iter().map(|one| (one, None)).collect();
                let together = on(threads, || products(&x, &every).expect("computes").into_iter().flat_map(|y| values(Ok(y))).collect());
                prop_assert_eq!(&together, &alone);
            }
        }

        #[test]
        fn gives_its_weights_back(inputs in 1_usize..40, outputs in 1_usize..100, seed: u32, halves: bool) {
            let w = noise(outputs * inputs, seed, halves);
            let packed = Packed::new(&matrix(&w, (outputs, inputs))).expect("packs");
            let every: Vec<u32> = (0..outputs as u32).collect();
            prop_assert_eq!(&values(packed.rows(&every)), &w);
            let turned = values(packed.turned(0, inputs, DType::F32));
            let start = inputs / 2;
            prop_assert_eq!(&values(packed.turned(start, inputs - start, DType::F32)), &turned[start * outputs..]);
            prop_assert_eq!(values(matrix(&turned, (inputs, outputs)).t()), w);
        }
    }
}
