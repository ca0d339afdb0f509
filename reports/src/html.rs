//! The report as one self-contained page: no network, no script, no font.
//!
//! Everything from outside goes through the template's escaping; only our own SVG, which holds nothing but numbers, site
//! and scope names, is put in as it is.

mod axes;
mod curves;
mod heatmap;
mod page;
mod plot;
mod scope;

use fidelity_verdict::Verdict;
use minijinja::{Environment, UndefinedBehavior, value::Serde};

use self::page::Page;
use crate::ReportError;

/// The page; `reproduce` is the command line shown as the way to repeat the run.
///
/// # Errors
/// The template does not fit its data or a chart cannot be drawn: a fault of ours.
pub fn html(verdict: &Verdict, reproduce: &str) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_template("report.css", include_str!("../templates/report.css"))?;
    environment.add_template("report.html", include_str!("../templates/report.html"))?;
    let page = Page::of(verdict, reproduce)?;
    Ok(environment.get_template("report.html")?.render(Serde(page))?)
}
