//! Error by layer of the scope that tells most.

use fidelity_verdict::Verdict;

use super::{
    Paint, Style, hanging,
    table::{Align, Column, Row, Table},
};
use crate::layers::{Layer, Value, layers, telling_scope};

/// Columns of a full bar: relative L2 from 1e-6 to 1 on a log scale.
const BAR: f64 = 24.0;

pub(super) fn section(verdict: &Verdict, style: Style) -> Vec<String> {
    let Some((scope, result)) = telling_scope(verdict) else { return Vec::new() };
    let thresholds = &verdict.thresholds;
    let title = format!(
        "Layers of {scope}: median relative L2 (output: resid_post in a block; bad above {} and {} × noise)",
        thresholds.bad_site_relative_l2, thresholds.bad_site_noise_factor,
    );
    let columns = [("layer", Align::Right), ("resid_mid", Align::Right), ("output", Align::Right)];
    let columns = columns.into_iter().chain([
        ("local", Align::Right),
        ("noise", Align::Right),
        ("1e-6 …………… log ……………… 1", Align::Left),
    ]);
    let columns = columns.map(|(name, align)| Column { name, align }).collect();
    let rows = layers(verdict, result).iter().map(row).collect();
    let mut lines = hanging("", &title, style);
    lines.extend(Table { columns, rows }.lines(style));
    lines
}

fn row(layer: &Layer) -> Row {
    let Layer { middle, output, local, noise, .. } = layer;
    let painted = if layer.first_bad.is_some() { Paint::Bad } else { Paint::Plain };
    let mut cells = vec![(layer.name.clone(), painted)];
    cells.extend([middle, output, local, noise].map(|value| (value.text.clone(), painted)));
    cells.push((bar(output), painted));
    Row { cells, below: layer.first_bad.iter().map(|site| format!("▲ first bad site: {site}")).collect() }
}

/// A bar that grows with the logarithm of the error.
fn bar(value: &Value) -> String {
    let Some(number) = value.number.filter(|number| *number > 0.0) else { return String::new() };
    let share = ((number.log10() + 6.0) / 6.0).clamp(0.0, 1.0);
    "█".repeat((share * BAR).round() as usize)
}
