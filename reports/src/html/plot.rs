//! Line and dot charts as inline SVG whose colours come from the page's style sheet.
//!
//! plotters draws axes, mesh and lines in stand-in colours; each stand-in then becomes a CSS class, so that one chart
//! serves light, dark and print. All text in a chart is ours: numbers, site and scope names.

use std::{collections::BTreeSet, ops::Range};

use plotters::{
    coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter},
    prelude::*,
};

use crate::ReportError;

/// Left edge of every plot area, so that charts above each other share their x axis, in pixels.
pub(super) const LEFT: u32 = 76;
/// Width of every chart, in pixels.
pub(super) const WIDTH: u32 = 1080;
/// Right margin of every chart, in pixels.
pub(super) const RIGHT: u32 = 18;
const TOP: u32 = 30;
const BOTTOM: u32 = 40;

/// A chart.
pub(super) struct Plot {
    /// Names the chart in errors.
    pub(super) name: &'static str,
    /// What the chart shows, read out where it cannot be seen.
    pub(super) description: String,
    /// Pixels.
    pub(super) height: u32,
    pub(super) x: Axis,
    pub(super) y: Axis,
    pub(super) marks: Vec<Mark>,
}

/// An axis in the chart's own coordinates.
#[derive(Clone)]
pub(super) struct Axis {
    pub(super) caption: String,
    pub(super) range: Range<f64>,
    /// Where ticks are and what they say.
    pub(super) ticks: Vec<(f64, String)>,
}

/// Something drawn in a chart.
pub(super) enum Mark {
    /// Line segments: absent values leave gaps.
    Line(Ink, Vec<Vec<(f64, f64)>>),
    /// A dot a point.
    Dots(Ink, Vec<(f64, f64)>),
    /// A cross a point, for values that are not finite.
    Crosses(Vec<(f64, f64)>),
    /// A horizontal line with its meaning.
    Rule(f64, String),
    /// A vertical line with its meaning.
    Upright(f64, String),
}

/// What a mark means; the style sheet gives colour, width and dashes of `.ink-…`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ink {
    Text,
    Axis,
    Mesh,
    Value,
    Spread,
    Local,
    Noise,
}

impl Ink {
    const ALL: [Self; 7] = [Self::Text, Self::Axis, Self::Mesh, Self::Value, Self::Spread, Self::Local, Self::Noise];

    const fn class(self) -> &'static str {
        match self {
            Self::Text => "ink-text",
            Self::Axis => "ink-axis",
            Self::Mesh => "ink-mesh",
            Self::Value => "ink-value",
            Self::Spread => "ink-spread",
            Self::Local => "ink-local",
            Self::Noise => "ink-noise",
        }
    }

    /// A colour that stands for the ink until [`styled`].
    const fn stand_in(self) -> RGBColor {
        RGBColor(1, 2, self as u8)
    }
}

type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Cartesian2d<Axis, Axis>>;
type DrawError<'a> = DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>;

impl Plot {
    /// The chart as an `<svg>` element.
    pub(super) fn svg(&self) -> Result<String, ReportError> {
        let mut drawn = String::new();
        let extra = self
            .draw(&mut drawn)
            .map_err(|error| ReportError::Chart { chart: self.name, reason: error.to_string() })?;
        let frame = format!(r#"<svg width="{WIDTH}" height="{}""#, self.height);
        let named = format!(r#"<svg class="chart" role="img" aria-label="{}""#, self.description);
        Ok(styled(drawn).replacen(&frame, &named, 1).replace("</svg>", &format!("{extra}</svg>")))
    }

    /// Draws through plotters; returns what plotters has no compact form for.
    fn draw<'a>(&self, drawn: &'a mut String) -> Result<String, DrawError<'a>> {
        let area = SVGBackend::with_string(drawn, (WIDTH, self.height)).into_drawing_area();
        let mut chart = ChartBuilder::on(&area)
            .margin_top(TOP)
            .margin_right(RIGHT)
            .x_label_area_size(BOTTOM)
            .y_label_area_size(LEFT)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        let label = ("sans-serif", 12).into_font().color(&Ink::Text.stand_in());
        chart
            .configure_mesh()
            .disable_x_mesh()
            .bold_line_style(Ink::Mesh.stand_in())
            .light_line_style(TRANSPARENT)
            .axis_style(Ink::Axis.stand_in())
            .label_style(label)
            .draw()?;
        for (ink, segment) in self.marks.iter().flat_map(Mark::segments) {
            chart.draw_series(LineSeries::new(segment.iter().copied(), ink.stand_in()))?;
        }
        let extra = self.marks.iter().map(|mark| self.compact(mark, &chart)).collect::<String>() + &self.captions();
        area.present()?;
        Ok(extra)
    }

    fn captions(&self) -> String {
        let (right, bottom) = (WIDTH - RIGHT, self.height - 6);
        let (x, y) = (&self.x.caption, &self.y.caption);
        format!(
            r#"<text class="caption" x="{LEFT}" y="16">{y}</text><text class="caption end" x="{right}" y="{bottom}">{x}</text>"#
        )
    }

    fn compact(&self, mark: &Mark, chart: &Chart<'_>) -> String {
        let at = |x: f64, y: f64| chart.backend_coord(&(x, y));
        let path = |class: &str, points: &[(f64, f64)], stroke: &str| {
            let pixels: BTreeSet<(i32, i32)> = points.iter().map(|(x, y)| at(*x, *y)).collect();
            let commands: String = pixels.iter().map(|(x, y)| format!("M{x} {y}{stroke}")).collect();
            format!(r#"<path class="{class}" d="{commands}"/>"#)
        };
        match mark {
            Mark::Line(..) => String::new(),
            Mark::Dots(ink, points) => path(&format!("dots {}", ink.class()), points, "h0"),
            Mark::Crosses(points) => path("crosses", points, "m-3 -7l6 6m-6 0l6 -6"),
            Mark::Rule(y, meaning) => {
                let (right, y) = at(self.x.range.end, *y);
                let label = label(i64::from(LEFT) + 8, i64::from(y) - 5, "start", meaning);
                format!(r#"<path class="rule" d="M{LEFT} {y}H{right}"/>{label}"#)
            }
            Mark::Upright(x, meaning) => {
                let ((x, bottom), late) =
                    (at(*x, self.y.range.start), *x > (self.x.range.start + self.x.range.end) / 2.0);
                let (shift, anchor) = if late { (-6, "end") } else { (6, "start") };
                let label = label(i64::from(x) + shift, i64::from(TOP) + 12, anchor, meaning);
                format!(r#"<path class="upright" d="M{x} {bottom}V{TOP}"/>{label}"#)
            }
        }
    }
}

fn label(x: i64, y: i64, anchor: &str, text: &str) -> String {
    format!(r#"<text class="note" x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>"#)
}

impl Mark {
    fn segments(&self) -> Vec<(Ink, &[(f64, f64)])> {
        match self {
            Self::Line(ink, segments) => segments.iter().map(|segment| (*ink, segment.as_slice())).collect(),
            Self::Dots(..) | Self::Crosses(_) | Self::Rule(..) | Self::Upright(..) => Vec::new(),
        }
    }
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (from, to): (i32, i32)) -> i32 {
        let share = (value - self.range.start) / (self.range.end - self.range.start);
        from + (share * f64::from(to - from)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let bold = self.ticks.iter().map(|(at, _)| *at).filter(|_| !hint.weight().allow_light_points());
        bold.collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

impl ValueFormatter<f64> for Axis {
    /// What the tick nearest to `value` says.
    fn format_ext(&self, value: &f64) -> String {
        let distance = |(at, _): &&(f64, String)| (at - value).abs();
        let nearest = self.ticks.iter().min_by(|a, b| distance(a).total_cmp(&distance(b)));
        nearest.map_or_else(String::new, |(_, text)| text.clone())
    }
}

/// Puts CSS classes where plotters wrote stand-in colours and its own fonts.
fn styled(drawn: String) -> String {
    let font = r#" font-family="sans-serif" font-size="9.67741935483871""#;
    let drawn =
        drawn.replace('\n', "").replace(font, "").replace(r#" opacity="1""#, "").replace(r#" stroke-width="1""#, "");
    Ink::ALL.into_iter().fold(drawn, |svg, ink| {
        let RGBColor(red, green, blue) = ink.stand_in();
        let colour = format!("#{red:02X}{green:02X}{blue:02X}");
        let class = format!(r#"class="{}""#, ink.class());
        svg.replace(&format!(r#"stroke="{colour}""#), &class).replace(&format!(r#"fill="{colour}""#), &class)
    })
}
