//! embeddings.bin against the checkpoint's embedding, a block of rows at a time.

use std::io::{Read, Seek};

use crate::hef::{Description, HefError, Quantisation, Source};

use super::{
    check::{Outcome, fail, pass, unknown},
    config::Role,
    facts::CheckpointFacts,
    model::{EMBEDDINGS, Model},
};

/// Values in memory at a time.
const BLOCK_VALUES: usize = 1 << 18;
/// Rows kept to see whether one table is the other, rotated.
const KEPT_ROWS: usize = 24;
/// How far inner products of rows may be off, relatively, and still be those of a rotated table. Quantised to 16 bits they are
/// off by less than 1e-3; unrelated tables are off by about 1.
const ROTATION_TOLERANCE: f64 = 1e-2;
/// Tables more alike than this are the same one with faults, not a rotated one.
const ROTATION_COSINE: f64 = 0.99;
/// Share of values that a range may clip.
const CLIPPED_SHARE: f64 = 1e-3;
/// Half a step, and what float32 cannot tell apart among codes near 65535: a compiler that divides in it rounds values this far
/// from half a step either way.
const STEP_TOLERANCE: f64 = 0.5 + 1.0 / 128.0;

/// Compares the tables, or says why that cannot be done.
///
/// # Errors
/// The HEF cannot be read.
pub(super) fn compare<R: Read + Seek>(
    model: &Model<'_>,
    facts: &mut CheckpointFacts<'_>,
    source: &mut Source<R>,
) -> Result<Outcome, HefError> {
    let table = match Table::of(model.description, model, facts) {
        Ok(table) => table,
        Err(outcome) => return Ok(outcome),
    };
    let mut difference = Difference::of(&table);
    let block = (BLOCK_VALUES / table.width).max(1);
    let mut first = 0;
    while first < table.rows {
        let rows = block.min(table.rows - first);
        let bytes = source.read(table.start + (first * table.width * 2) as u64, rows * table.width * 2)?;
        let expected = match (facts.embedding_rows)(first, rows) {
            Ok(expected) if expected.len() == rows * table.width => expected,
            Ok(expected) => {
                return Ok(unknown(format!(
                    "the checkpoint gave {} values for {rows} rows of {}",
                    expected.len(),
                    table.width
                )));
            }
            Err(reason) => return Ok(unknown(format!("the checkpoint's embedding cannot be read: {reason}"))),
        };
        let codes = bytes.as_chunks::<2>().0.iter().map(|pair| u16::from_le_bytes(*pair));
        difference.add(first, codes, &expected);
        first += rows;
    }
    Ok(difference.conclude())
}

/// embeddings.bin, once its shape is known to be the checkpoint's.
struct Table {
    start: u64,
    /// Rows that the checkpoint has too.
    rows: usize,
    /// Rows after these.
    extra: u64,
    width: usize,
    scale: f64,
    zero_point: f64,
}

impl Table {
    fn of(description: &Description, model: &Model<'_>, facts: &CheckpointFacts<'_>) -> Result<Self, Outcome> {
        let Some(resource) = description.resource(EMBEDDINGS) else {
            return Err(unknown("the file has no embeddings.bin"));
        };
        let input = model.prefill.as_ref().and_then(|part| part.input(Role::Embeddings));
        let (Some(start), Some(input)) = (resource.file_offset, input) else {
            return Err(unknown("embeddings.bin is not inside the file, or the embedding input was not found"));
        };
        let (rows, left) = model.embedding_rows().unwrap_or((0, 1));
        if input.features() != facts.hidden || rows < facts.vocabulary || left != 0 {
            return Err(fail(format!(
                "{} bytes in rows of {} values, but the checkpoint's embedding is [{}, {}]",
                resource.size_bytes,
                input.features(),
                facts.vocabulary,
                facts.hidden
            )));
        }
        let Some(Quantisation { scale, zero_point, .. }) = input.quantisation.as_ref() else {
            return Err(unknown("the file does not say how its embeddings are quantised"));
        };
        if !(*scale > 0.0 && scale.is_finite() && zero_point.is_finite()) {
            return Err(fail(format!("codes with scale {scale} and zero point {zero_point} mean nothing")));
        }
        // All fit: the table is inside a file.
        let (extra, rows, width) = (rows - facts.vocabulary, facts.vocabulary as usize, input.features() as usize);
        Ok(Self { start, rows, extra, width, scale: f64::from(*scale), zero_point: f64::from(*zero_point) })
    }
}

/// The difference of two tables, as far as it was added up.
struct Difference<'a> {
    table: &'a Table,
    values: u64,
    off: u64,
    clipped: u64,
    not_finite: u64,
    worst: f64,
    first_off: Option<usize>,
    rows_off: u64,
    // Σ found², Σ found·expected, Σ expected²
    sums: [f64; 3],
    kept: Vec<(Vec<f64>, Vec<f64>)>,
    keep_every: usize,
}

impl<'a> Difference<'a> {
    fn of(table: &'a Table) -> Self {
        Self {
            table,
            values: 0,
            off: 0,
            clipped: 0,
            not_finite: 0,
            worst: 0.0,
            first_off: None,
            rows_off: 0,
            sums: [0.0; 3],
            kept: Vec::new(),
            keep_every: (table.rows / KEPT_ROWS).max(1),
        }
    }

    fn add(&mut self, first: usize, mut codes: impl Iterator<Item = u16>, expected: &[f32]) {
        for (row, expected) in (first..).zip(expected.chunks_exact(self.table.width)) {
            let found: Vec<f64> = codes
                .by_ref()
                .take(self.table.width)
                .map(|code| (f64::from(code) - self.table.zero_point) * self.table.scale)
                .collect();
            self.add_row(row, &found, expected);
            if row % self.keep_every == 0 && self.kept.len() < KEPT_ROWS {
                self.kept.push((found, expected.iter().copied().map(f64::from).collect()));
            }
        }
    }

    fn add_row(&mut self, row: usize, found: &[f64], expected: &[f32]) {
        let Table { scale, zero_point, .. } = *self.table;
        let (low, high) = (-zero_point * scale, (f64::from(u16::MAX) - zero_point) * scale);
        let off_before = self.off;
        for (found, expected) in found.iter().zip(expected) {
            let expected = f64::from(*expected);
            self.values += 1;
            if !expected.is_finite() {
                self.not_finite += 1;
                continue;
            }
            let [ff, fe, ee] = &mut self.sums;
            *ff += found * found;
            *fe += found * expected;
            *ee += expected * expected;
            let error = (found - expected).abs();
            let allowed = STEP_TOLERANCE * scale + f64::from(f32::EPSILON) * expected.abs();
            if error <= allowed {
                continue;
            }
            let clamped = expected.clamp(low, high);
            if (found - clamped).abs() <= allowed {
                self.clipped += 1;
            } else {
                self.off += 1;
                self.worst = self.worst.max(error);
            }
        }
        if self.off > off_before {
            self.rows_off += 1;
            self.first_off = self.first_off.or(Some(row));
        }
    }

    fn conclude(self) -> Outcome {
        let Table { rows, width, scale, .. } = *self.table;
        if self.not_finite > 0 {
            return unknown(format!("{} values of the checkpoint's embedding are not finite", self.not_finite));
        }
        let shape = format!("[{rows}, {width}]");
        let share = self.clipped as f64 / self.values.max(1) as f64;
        if self.off == 0 && share <= CLIPPED_SHARE {
            let clipped = match self.clipped {
                0 => String::new(),
                some => format!("; {some} values are clipped by its range"),
            };
            let equal =
                format!("{shape}: every code is the nearest to the checkpoint's value (step {scale:e}){clipped}");
            return match self.table.extra {
                0 => pass(equal),
                extra => unknown(format!("{equal}; {extra} more rows follow, which the checkpoint does not have")),
            };
        }
        if self.off == 0 {
            return unknown(format!(
                "{shape}: {:.2} % of the values are clipped by the range of the codes",
                100.0 * share
            ));
        }
        let [ff, fe, ee] = self.sums;
        let cosine = fe / (ff * ee).sqrt();
        if cosine < ROTATION_COSINE && self.rotated() {
            return unknown(format!(
                "{shape}: not the checkpoint's values, but rows have its lengths and angles: rotated, as QuaRot does; whether the \
                 graph undoes that cannot be told"
            ));
        }
        let factor = fe / ee;
        let scaled = if cosine > 0.999 && (factor - 1.0).abs() > 0.01 {
            format!("; it is the checkpoint's times {factor:.4}")
        } else {
            String::new()
        };
        fail(format!(
            "{shape}: {} of {} values in {} rows are off by more than half a step of {scale:e} (first row {}, largest difference \
             {:e}, cosine of the tables {cosine:.6}){scaled}",
            self.off,
            self.values,
            self.rows_off,
            self.first_off.unwrap_or_default(),
            self.worst,
        ))
    }

    /// Inner products of rows are those of the checkpoint's rows, which rotating all rows alike does not change.
    fn rotated(&self) -> bool {
        let inner = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(a, b)| a * b).sum::<f64>();
        let (mut off, mut all) = (0.0, 0.0);
        for (at, (found, expected)) in self.kept.iter().enumerate() {
            for (other_found, other_expected) in &self.kept[at..] {
                let theirs = inner(expected, other_expected);
                off += (inner(found, other_found) - theirs).powi(2);
                all += theirs * theirs;
            }
        }
        // Fewer rows than dimensions of freedom prove nothing.
        self.kept.len() >= 4 && all > 0.0 && off.sqrt() <= ROTATION_TOLERANCE * all.sqrt()
    }
}
