//! Attention of chunks computed together: every head of every chunk is a task.

use candle_core::{Result, Tensor};
use pulp::Arch;
use rayon::prelude::*;

use super::{
    Values, WORTH_SPREADING,
    exponential::exponential,
    fill_rows,
    matmul::{Matrix, product},
    tensor,
    tile::SUM_BLOCK,
};

/// Heads and their width.
#[derive(Clone, Copy)]
pub(in super::super) struct Queries {
    pub(in super::super) heads: usize,
    pub(in super::super) kv_heads: usize,
    pub(in super::super) head_dim: usize,
}

impl Queries {
    /// Head `head` of keys or values `[position, kv head, head_dim]` as query head `head` reads it, `[position, head_dim]`.
    fn keys<'a>(&self, values: &'a [f32], head: usize) -> Matrix<'a> {
        let row_stride = self.kv_heads * self.head_dim;
        let rows = values.len() / row_stride;
        let start = head / (self.heads / self.kv_heads) * self.head_dim;
        Matrix {
            values: values.get(start..).unwrap_or(&[]),
            rows,
            columns: self.head_dim,
            row_stride,
            column_stride: 1,
        }
    }
}

/// `task` for every head of every chunk; `sizes` are the multiplications of one head of each.
fn tasks<T: Send>(sizes: &[usize], heads: usize, task: impl Fn(usize, usize) -> T + Sync) -> Vec<Vec<T>> {
    let all: Vec<(usize, usize)> =
        (0..sizes.len()).flat_map(|chunk| (0..heads).map(move |head| (chunk, head))).collect();
    let mut done: Vec<T> = if sizes.iter().sum::<usize>() * heads < 8 * WORTH_SPREADING {
        all.iter().map(|(chunk, head)| task(*chunk, *head)).collect()
    } else {
        all.par_iter().map(|(chunk, head)| task(*chunk, *head)).collect()
    };
    let mut chunks = Vec::with_capacity(sizes.len());
    while !done.is_empty() {
        let rest = done.split_off(heads.min(done.len()));
        chunks.push(std::mem::replace(&mut done, rest));
    }
    chunks
}

/// Scores `[head, row, key]` of each chunk, scale · q·kᵀ. `q` `[row, head, head_dim]` holds the chunks' rows one after another,
/// `keys` `[position, kv head, head_dim]` are each chunk's own, and `rows` says how many rows each has.
pub(in super::super) fn scores(
    queries: Queries,
    q: &Tensor,
    keys: &[Tensor],
    rows: &[usize],
    scale: f64,
) -> Result<Vec<Tensor>> {
    let Queries { heads, head_dim, .. } = queries;
    let q = q.contiguous()?;
    let q = Values::of(&q)?;
    let keys = keys.iter().map(Values::of).collect::<Result<Vec<_>>>()?;
    let starts = starts(rows);
    let counts: Vec<usize> = keys.iter().map(|keys| queries.keys(keys, 0).rows).collect();
    let sizes: Vec<usize> = rows.iter().zip(&counts).map(|(rows, keys)| rows * keys * head_dim).collect();
    let chunks = tasks(&sizes, heads, |chunk, head| {
        let keys = queries.keys(&keys[chunk], head);
        if rows[chunk] == 1 {
            return row_scores(&q[(starts[chunk] * heads + head) * head_dim..][..head_dim], keys, scale as f32);
        }
        let own = Matrix {
            values: &q[(starts[chunk] * heads + head) * head_dim..],
            rows: rows[chunk],
            columns: head_dim,
            row_stride: heads * head_dim,
            column_stride: 1,
        };
        let mut scores = vec![0.0; rows[chunk] * keys.rows];
        let turned =
            Matrix { rows: head_dim, columns: keys.rows, row_stride: 1, column_stride: keys.row_stride, ..keys };
        product(&mut scores, own, turned, scale as f32);
        scores
    });
    let shaped = chunks.into_iter().zip(rows).zip(&counts);
    shaped.map(|((chunk, rows), keys)| tensor(chunk.concat(), (heads, *rows, *keys))).collect()
}

/// Scores of one row of queries: a step's, for which `gemm` takes longer to begin than to compute.
fn row_scores(q: &[f32], keys: Matrix<'_>, scale: f32) -> Vec<f32> {
    Arch::new().dispatch(
        #[inline(always)]
        || keys.each_row().map(|key| scale * dot(q, key)).collect(),
    )
}

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<16>(), b.as_chunks::<16>());
    let mut sums = [0.0; 16];
    for (a, b) in a.iter().zip(b) {
        sums.iter_mut().zip(a).zip(b).for_each(|((sum, a), b)| *sum += a * b);
    }
    sums.iter().sum::<f32>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<f32>()
}

/// The values of keys weighted by one row of a pattern.
fn row_weighted(pattern: &[f32], values: Matrix<'_>) -> Vec<f32> {
    let mut z = vec![0.0; values.columns];
    let mut sums = vec![0.0; values.columns];
    Arch::new().dispatch(
        #[inline(always)]
        || {
            let mut values = values.each_row();
            for pattern in pattern.chunks(SUM_BLOCK) {
                sums.fill(0.0);
                for (weight, values) in pattern.iter().zip(&mut values) {
                    sums.iter_mut().zip(values).for_each(|(sum, value)| *sum += weight * value);
                }
                z.iter_mut().zip(&sums).for_each(|(z, sum)| *z += sum);
            }
        },
    );
    z
}

/// Softmax over the keys each row sees, 0 elsewhere; `seen` holds, chunk by chunk, row by row, whether each key is seen.
/// A row that sees nothing is NaN.
pub(in super::super) fn patterns(scores: &Tensor, seen: &[bool]) -> Result<Tensor> {
    let (_, rows, keys) = scores.dims3()?;
    let contiguous = scores.contiguous()?;
    let values = Values::of(&contiguous)?;
    let mut pattern = vec![0.0; values.len()];
    let arch = Arch::new();
    fill_rows(keys, &mut pattern, |index, pattern| {
        let scores = &values[index * keys..(index + 1) * keys];
        let row = index % rows;
        let seen = &seen[row * keys..(row + 1) * keys];
        arch.dispatch(
            #[inline(always)]
            || softmax(scores, seen, pattern),
        );
    });
    tensor(pattern, scores.shape())
}

#[inline(always)]
fn softmax(scores: &[f32], seen: &[bool], pattern: &mut [f32]) {
    let visible = scores.iter().zip(seen).map(|(score, seen)| if *seen { *score } else { f32::NEG_INFINITY });
    let largest = visible.fold(f32::NEG_INFINITY, f32::max);
    for ((to, score), seen) in pattern.iter_mut().zip(scores).zip(seen) {
        *to = if *seen { exponential(score - largest) } else { 0.0 };
    }
    let sum = pattern.iter().map(|value| f64::from(*value)).sum::<f64>() as f32;
    pattern.iter_mut().for_each(|value| *value /= sum);
}

/// The weighted values `[row, head × head_dim]`, rows of the chunks one after another.
pub(in super::super) fn weighted(queries: Queries, patterns: &[Tensor], values: &[Tensor]) -> Result<Tensor> {
    let Queries { heads, head_dim, .. } = queries;
    let patterns = patterns.iter().map(Tensor::contiguous).collect::<Result<Vec<_>>>()?;
    let rows = patterns.iter().map(|pattern| pattern.dim(1)).collect::<Result<Vec<_>>>()?;
    let patterns = patterns.iter().map(Values::of).collect::<Result<Vec<_>>>()?;
    let values = values.iter().map(Values::of).collect::<Result<Vec<_>>>()?;
    let sizes: Vec<usize> = patterns.iter().map(|pattern| pattern.len() / heads * head_dim).collect();
    let chunks = tasks(&sizes, heads, |chunk, head| {
        let values = queries.keys(&values[chunk], head);
        let (rows, keys) = (rows[chunk], values.rows);
        let own = &patterns[chunk][head * rows * keys..(head + 1) * rows * keys];
        if rows == 1 {
            return row_weighted(own, values);
        }
        let own = Matrix { values: own, rows, columns: keys, row_stride: keys, column_stride: 1 };
        let mut z = vec![0.0; rows * head_dim];
        product(&mut z, own, values, 1.0);
        z
    });
    let total: usize = rows.iter().sum();
    let mut z = vec![0.0; total * heads * head_dim];
    for (start, chunk) in starts(&rows).iter().zip(&chunks) {
        for (head, from) in chunk.iter().enumerate() {
            for (row, from) in from.chunks_exact(head_dim).enumerate() {
                let at = ((start + row) * heads + head) * head_dim;
                z[at..at + head_dim].copy_from_slice(from);
            }
        }
    }
    tensor(z, (total, heads * head_dim))
}

/// Where each chunk's rows begin.
fn starts(rows: &[usize]) -> Vec<usize> {
    let ends = rows.iter().scan(0, |end, rows| {
        *end += rows;
        Some(*end - rows)
    });
    ends.collect()
}
