//! Layer × position as a heat map of small SVG rectangles; the style sheet gives the colours of `.h0` to `.h10`.

use std::collections::BTreeMap;

use fidelity_trace::{BlockSite, Scope, Site};
use fidelity_verdict::ScopeResult;

use super::{
    axes::Columns,
    curves::is_drawn,
    plot::{LEFT, RIGHT, WIDTH},
};
use crate::numbers::magnitude;

/// Upper ends of the colours but the last: half decades of relative L2.
const EDGES: [f64; 10] = [1e-4, 3.16e-4, 1e-3, 3.16e-3, 1e-2, 3.16e-2, 0.1, 0.316, 1.0, 3.16];
/// With more cells than this, cells of one colour are joined and carry no value of their own.
const MOST_CELLS_WITH_VALUES: usize = 7_000;
const TOP: usize = 24;
const BOTTOM: usize = 40;

/// A colour and the errors it stands for.
#[derive(serde::Serialize)]
pub(super) struct Swatch {
    class: String,
    meaning: String,
}

/// What the colours mean, lowest first.
pub(super) fn legend() -> Vec<Swatch> {
    let ends = EDGES.iter().map(|edge| format!("≤ {edge}"));
    let all = ends.chain([format!("> {}", EDGES[EDGES.len() - 1])]);
    all.enumerate().map(|(index, meaning)| Swatch { class: format!("h{index}"), meaning }).collect()
}

/// The heat map as an `<svg>` element; absent when no site has a profile.
pub(super) fn svg(scope: Scope, result: &ScopeResult) -> Option<String> {
    let heatmap = HeatMap::of(result);
    let filled = !heatmap.rows.is_empty() && !heatmap.columns.positions.is_empty();
    filled.then(|| heatmap.svg(scope))
}

struct HeatMap {
    columns: Columns,
    /// As data flows, one cell a column.
    rows: Vec<(Site, Vec<Option<f64>>)>,
    first_bad: Option<Site>,
    /// Pixels.
    row_height: usize,
}

impl HeatMap {
    fn of(result: &ScopeResult) -> Self {
        let columns = Columns::of(result);
        let sites = result.profile.sites.iter().filter(|(site, _)| is_drawn(**site));
        let row = |values: &[Option<f64>]| {
            let known: BTreeMap<_, _> = result.profile.positions.iter().zip(values).collect();
            columns.positions.iter().map(|position| known.get(position).copied().copied().flatten()).collect()
        };
        let rows: Vec<(Site, Vec<_>)> = sites.map(|(site, values)| (*site, row(values))).collect();
        let row_height = (600 / rows.len().max(1)).clamp(9, 20);
        Self { columns, rows, first_bad: result.first_bad_site, row_height }
    }

    fn svg(&self, scope: Scope) -> String {
        let (width, height) = (self.cell_width(), self.height());
        let with_values = self.rows.len() * self.columns.positions.len() <= MOST_CELLS_WITH_VALUES;
        let hatch = format!("hatch-{scope}");
        let pattern = format!(
            r##"<defs><pattern id="{hatch}" href="#hatch" patternTransform="scale({:.6} {:.6})"/></defs>"##,
            1.0 / width,
            1.0 / self.row_height as f64,
        );
        let row = |(index, (site, cells)): (usize, &(Site, Vec<Option<f64>>))| {
            let cells = if with_values { self.valued(*site, cells, &hatch) } else { joined(cells, &hatch) };
            format!(r#"<g transform="translate(0 {index})">{cells}</g>"#)
        };
        let rows: String = self.rows.iter().enumerate().map(row).collect();
        format!(
            r#"<svg class="chart heat" role="img" viewBox="0 0 {WIDTH} {height}" aria-label="Relative L2 by layer and position in scope {scope}; verdict.json holds the same numbers.">{pattern}<text class="caption" x="{LEFT}" y="14">relative L2 by layer and position, median over prompts</text><g transform="translate({LEFT} {TOP}) scale({width:.4} {0})">{rows}</g>{1}{2}</svg>"#,
            self.row_height,
            self.layer_labels(),
            self.position_labels(),
        )
    }

    fn cell_width(&self) -> f64 {
        f64::from(WIDTH - LEFT - RIGHT) / self.columns.positions.len() as f64
    }

    fn height(&self) -> usize {
        TOP + self.rows.len() * self.row_height + BOTTOM
    }

    /// A rectangle a cell that says what it is when pointed at. Its size comes from the style sheet.
    fn valued(&self, site: Site, cells: &[Option<f64>], hatch: &str) -> String {
        let cell = |(index, (position, value)): (usize, (&u32, &Option<f64>))| {
            let text = value.map_or_else(|| "no finite row".to_owned(), magnitude);
            format!("<rect x={index} {}><title>{site} @{position}: {text}</title></rect>", fill(*value, hatch))
        };
        self.columns.positions.iter().zip(cells).enumerate().map(cell).collect()
    }

    /// Block numbers, the sites outside of blocks, and the first bad site.
    fn layer_labels(&self) -> String {
        let at = |rows: f64| TOP as f64 + rows * self.row_height as f64;
        let narrow = self.row_height < 12;
        let labelled = self.rows.iter().enumerate().filter_map(|(index, (site, _))| {
            let middle = index as f64 + 0.5;
            let (text, rows) = match site {
                Site::Embed | Site::Logits | Site::Pooled => (site.kind().to_owned(), middle),
                Site::Block(block, BlockSite::ResidPost) if narrow => (block.to_string(), index as f64),
                Site::FinalNorm | Site::Block(..) if narrow => return None,
                Site::FinalNorm => ("norm".to_owned(), middle),
                Site::Block(block, BlockSite::ResidPost) => (format!("{block} post"), middle),
                Site::Block(block, _) => (format!("{block} mid"), middle),
            };
            let (x, y) = (LEFT - 16, at(rows));
            Some(format!(r#"<text x="{x}" y="{y:.1}" dy=".35em" text-anchor="end">{text}</text>"#))
        });
        let bad = self.rows.iter().position(|(site, _)| Some(*site) == self.first_bad).map(|index| {
            format!(
                r#"<path class="marker" d="M{} {:.1}l-8 -5v10z"><title>first bad site</title></path>"#,
                LEFT - 3,
                at(index as f64 + 0.5)
            )
        });
        labelled.chain(bad).collect()
    }

    fn position_labels(&self) -> String {
        let baseline = TOP + self.rows.len() * self.row_height + 15;
        let axis = self.columns.axis();
        let labels = axis.ticks.iter().map(|(at, text)| {
            let x = f64::from(LEFT) + at * self.cell_width();
            format!(r#"<text x="{x:.1}" y="{baseline}" text-anchor="middle">{text}</text>"#)
        });
        let caption = format!(
            r#"<text class="caption end" x="{}" y="{}">{}</text>"#,
            WIDTH - RIGHT,
            self.height() - 6,
            axis.caption
        );
        labels.chain([caption]).collect()
    }
}

/// Runs of one colour as one path each.
fn joined(cells: &[Option<f64>], hatch: &str) -> String {
    let mut start = 0;
    let runs = cells.chunk_by(|a, b| colour(*a) == colour(*b)).map(|run| {
        let path = format!(r#"<path {} d="M{start} 0h{}v1h-{}z"/>"#, fill(run[0], hatch), run.len(), run.len());
        start += run.len();
        path
    });
    runs.collect()
}

/// The attribute that colours or hatches a cell.
fn fill(value: Option<f64>, hatch: &str) -> String {
    colour(value).map_or_else(|| format!(r#"fill="url(#{hatch})""#), |colour| format!("class=h{colour}"))
}

fn colour(value: Option<f64>) -> Option<usize> {
    value.filter(|value| !value.is_nan()).map(|value| EDGES.partition_point(|edge| *edge < value))
}
