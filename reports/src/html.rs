//! The report as one self-contained page: no network, no script, no font.
//!
//! Everything from outside goes through the template's escaping; only our own SVG, which holds nothing but numbers, site
//! and scope names, is put in as it is.

mod activations;
mod advice;
mod arms;
mod attribution;
mod axes;
mod curves;
mod diagnosis;
mod environment;
mod gate;
mod heatmap;
mod history;
mod page;
mod plot;
mod quantisation;
mod scope;
mod strip;
mod sweep;

use fidelity_verdict::{ActivationProfile, Advice, Cell, PastRun, Verdict};
use minijinja::{Environment, UndefinedBehavior, value::Serde};
use serde::Serialize;

pub(crate) use self::page::symbol;
use self::{
    activations::ActivationsPage, advice::AdvicePage, arms::ArmsPage, history::HistoryPage, page::Page,
    sweep::SweepPage,
};
use crate::{Circumstances, ReportError, arms::ArmReports};

/// The page; `reproduce` is the command line shown as the way to repeat the run.
///
/// # Errors
/// The template does not fit its data or a chart cannot be drawn: a fault of ours.
pub fn html(verdict: &Verdict, reproduce: &str) -> Result<String, ReportError> {
    html_among(verdict, &Circumstances { reproduce, ..Circumstances::default() })
}

/// The same with what is known beside the verdict.
///
/// # Errors
/// The template does not fit its data or a chart cannot be drawn: a fault of ours.
pub fn html_among(verdict: &Verdict, among: &Circumstances<'_>) -> Result<String, ReportError> {
    render("report.html", Page::of(verdict, among)?)
}

/// Runs over time on a page of their own: a curve for every checkpoint and arm.
///
/// # Errors
/// The template does not fit its data or a chart cannot be drawn: a fault of ours.
pub fn history_html(runs: &[PastRun]) -> Result<String, ReportError> {
    render("history.html", HistoryPage::of(runs)?)
}

/// The page of several arms, which links to the page of each.
///
/// # Errors
/// The template does not fit its data: a fault of ours.
pub fn arms_html(arms: &ArmReports<'_>, reproduce: &str) -> Result<String, ReportError> {
    render("arms.html", ArmsPage::of(arms, reproduce))
}

/// The charts of an activation profile on a page of their own.
///
/// # Errors
/// The template does not fit its data or a chart cannot be drawn: a fault of ours.
pub fn activations_html(profile: &ActivationProfile) -> Result<String, ReportError> {
    render("activations.html", ActivationsPage::of(profile)?)
}

/// An advice on a page of its own.
///
/// # Errors
/// The template does not fit its data or a chart cannot be drawn: a fault of ours.
pub fn advice_html(advice: &Advice) -> Result<String, ReportError> {
    render("advise.html", AdvicePage::of(advice)?)
}

/// The cells of a sweep, which link to their runs.
///
/// # Errors
/// The template does not fit its data or a chart cannot be drawn: a fault of ours.
pub fn sweep_html(cells: &[Cell], reproduce: &str) -> Result<String, ReportError> {
    render("sweep.html", SweepPage::of(cells, reproduce)?)
}

fn render(template: &str, page: impl Serialize) -> Result<String, ReportError> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.add_template("report.css", include_str!("../templates/report.css"))?;
    environment.add_template("head.html", include_str!("../templates/head.html"))?;
    environment.add_template("report.html", include_str!("../templates/report.html"))?;
    environment.add_template("activations.html", include_str!("../templates/activations.html"))?;
    environment.add_template("advise.html", include_str!("../templates/advise.html"))?;
    environment.add_template("history.html", include_str!("../templates/history.html"))?;
    environment.add_template("past.html", include_str!("../templates/past.html"))?;
    environment.add_template("arms.html", include_str!("../templates/arms.html"))?;
    environment.add_template("sweep.html", include_str!("../templates/sweep.html"))?;
    Ok(environment.get_template(template)?.render(Serde(page))?)
}
