//! An advice on a terminal.

use std::{path::Path, time::Duration};

use fidelity_trace::Site;
use fidelity_verdict::{Advice, BlockRange, Promotable, Proven, Remedy, SiteSqnr, Trial};

use crate::{
    identity::checkpoint_name,
    numbers::{correlation, magnitude, or_absent, percent},
    terminal::{Align, Style, duration, labelled, table},
    text::{printable, wrapped},
};

/// The advice in tables: what hurts, what to add, the proof, other remedies, and where the error is.
#[must_use]
pub fn advice_terminal(advice: &Advice, style: Style) -> String {
    let mut text = labelled("checkpoint  ", &checkpoint_name(&advice.checkpoint), style);
    text += &labelled(
        "recipe      ",
        &printable(&format!("{} (calibration {})", advice.recipe, advice.calibration)),
        style,
    );
    text += &labelled("target      ", &target(advice), style);
    text += &labelled("prompts     ", &prompts(advice), style);
    let word = advice.conclusion.name().to_uppercase();
    text += &format!("\n{}", labelled(&format!("{word}  "), &printable(&advice.reason), style));
    if !advice.kinds.is_empty() {
        text += &kinds(advice, style);
        text += &promoted(advice, style);
        text += &proof(advice, style);
        text += &remedies(advice, style);
        text += &sites(advice, style);
    }
    for note in &advice.notes {
        text += &labelled("  - ", &printable(note), style);
    }
    text
}

/// The line that ends the command.
#[must_use]
pub fn advice_line(advice: &Advice, wall_time: Duration, report: &Path) -> String {
    format!(
        "{}: {} · {} · {} · report {}",
        advice.conclusion.name(),
        printable(&advice.recipe),
        printable(&advice.reason),
        duration(wall_time),
        printable(&report.display().to_string())
    )
}

pub(crate) fn target(advice: &Advice) -> String {
    let top1 = advice.target.top1.map_or_else(String::new, |top1| format!(" and top-1 of at least {top1}"));
    format!("mean {} of at least {}{top1}", similarity_name(advice), advice.target.similarity)
}

/// Of an encoder no row has a first choice.
pub(crate) const fn similarity_name(advice: &Advice) -> &'static str {
    match advice.of_recipe.top1 {
        None if advice.of_recipe.similarity.is_some() => "centred cosine",
        _ => "Pearson",
    }
}

pub(crate) fn prompts(advice: &Advice) -> String {
    let prompts = &advice.prompts;
    let repeated = match prompts.repeated.len() {
        0 => String::new(),
        count => format!(", {count} left out that repeat others or the calibration's"),
    };
    let (searched, held) = (prompts.search.len(), prompts.held_out.len());
    printable(&format!("{searched} to search on, {held} held out for the proof{repeated} ({})", prompts.origin))
}

pub(crate) fn similarity(trial: Option<&Trial>) -> String {
    or_absent(trial.and_then(|trial| trial.similarity), correlation)
}

pub(crate) fn top1(trial: Option<&Trial>) -> String {
    or_absent(trial.and_then(|trial| trial.top1), percent)
}

/// Bytes in the largest unit of which there is one.
pub(crate) fn bytes(bytes: f64) -> String {
    const UNITS: [&str; 4] = ["B", "kB", "MB", "GB"];
    let (mut size, mut unit) = (bytes, 0);
    while size >= 1000.0 && unit + 1 < UNITS.len() {
        (size, unit) = (size / 1000.0, unit + 1);
    }
    format!("{} {}", magnitude(size), UNITS[unit])
}

pub(crate) const fn what(promotable: Promotable) -> &'static str {
    match promotable {
        Promotable::Activations => "activations",
        Promotable::Weights => "weights",
    }
}

/// Blocks in which something is promoted.
pub(crate) fn blocks(ranges: &[BlockRange], all: bool) -> String {
    let one = |range: &BlockRange| match (range.first, range.last) {
        (Some(first), Some(last)) if first == last => first.to_string(),
        (Some(first), Some(last)) => format!("{first}–{last}"),
        _ => "yes".to_owned(),
    };
    match (ranges.is_empty(), all) {
        (true, _) => "–".to_owned(),
        (false, true) => "all".to_owned(),
        (false, false) => ranges.iter().map(one).collect::<Vec<_>>().join(", "),
    }
}

/// Whether something is promoted in every block of the network.
pub(crate) fn in_every_block(ranges: &[BlockRange], advice: &Advice) -> bool {
    let last = advice.sites.keys().filter_map(|site| site.block()).max();
    matches!(ranges, [BlockRange { first: Some(0), last: found }] if *found == last)
}

fn kinds(advice: &Advice, style: Style) -> String {
    let columns = [
        ("kind", Align::Left),
        ("of", Align::Left),
        ("bits", Align::Right),
        ("alone low", Align::Right),
        ("top-1", Align::Right),
        ("alone high", Align::Right),
        ("advised in", Align::Left),
        ("more a token", Align::Right),
    ];
    let rows: Vec<Vec<String>> = advice
        .kinds
        .iter()
        .map(|kind| {
            vec![
                kind.kind.clone(),
                what(kind.what).to_owned(),
                format!("{}→{}", kind.bits, kind.promoted_bits),
                similarity(kind.alone_low.as_ref()),
                top1(kind.alone_low.as_ref()),
                similarity(kind.alone_promoted.as_ref()),
                blocks(&kind.advised, in_every_block(&kind.advised, advice)),
                bytes(kind.bytes),
            ]
        })
        .collect();
    let ends = format!(
        "recipe as it is {} (top-1 {}), everything promoted {} ({})",
        similarity(Some(&advice.of_recipe)),
        top1(Some(&advice.of_recipe)),
        similarity(Some(&advice.of_everything)),
        top1(Some(&advice.of_everything)),
    );
    let title = format!("One at a time, {} on the search prompts, the most harmful first", similarity_name(advice));
    format!("\n{}{}{}", labelled("", &title, style), labelled("  ", &ends, style), table(&columns, &rows, style))
}

fn promoted(advice: &Advice, style: Style) -> String {
    let Some(advised) = &advice.advised else { return String::new() };
    let cost = format!(
        "after {} trials: {} more a token, {} {} (top-1 {}) on the search prompts",
        advice.trials,
        bytes(advised.trial.bytes),
        similarity_name(advice),
        similarity(Some(&advised.trial)),
        top1(Some(&advised.trial)),
    );
    let lines: Vec<String> = advised.lines.iter().map(|line| format!("{line}\n")).collect();
    format!(
        "\nLines to add to the recipe (all of it in advised.alls)\n{}\n{}",
        labelled("  ", &cost, style),
        lines.concat()
    )
}

/// Both recipes on the held-out prompts.
pub(crate) fn proof_rows(advice: &Advice) -> Vec<Vec<String>> {
    let Some(proof) = &advice.proof else { return Vec::new() };
    let row = |name: &str, proven: &Proven| {
        let interval = proven.interval.map_or_else(|| "–".to_owned(), |[low, high]| format!("[{low:.4}, {high:.4}]"));
        vec![
            name.to_owned(),
            proven.verdict.to_string(),
            or_absent(proven.similarity, correlation),
            or_absent(proven.top1, percent),
            if proven.reached { "reached" } else { "not reached" }.to_owned(),
            interval,
            proven.rows.to_string(),
        ]
    };
    let advised = proof.advised.iter().map(|proven| row("advised", proven));
    std::iter::once(row("recipe", &proof.recipe)).chain(advised).collect()
}

fn proof(advice: &Advice, style: Style) -> String {
    let rows = proof_rows(advice);
    if rows.is_empty() {
        return String::new();
    }
    let columns = [
        ("unseen prompts", Align::Left),
        ("verdict", Align::Left),
        ("mean", Align::Right),
        ("top-1", Align::Right),
        ("target", Align::Left),
        ("95 % interval", Align::Left),
        ("rows", Align::Right),
    ];
    format!("\nThe proof, from the lines as they are written\n{}", table(&columns, &rows, style))
}

fn remedies(advice: &Advice, style: Style) -> String {
    if advice.remedies.is_empty() {
        return String::new();
    }
    let columns = [
        ("also exact in float", Align::Left),
        ("recipe", Align::Right),
        ("top-1", Align::Right),
        ("advised", Align::Right),
        ("top-1", Align::Right),
    ];
    let row = |remedy: &Remedy| {
        vec![
            printable(&remedy.name),
            similarity(Some(&remedy.of_recipe)),
            top1(Some(&remedy.of_recipe)),
            similarity(remedy.of_advised.as_ref()),
            top1(remedy.of_advised.as_ref()),
        ]
    };
    let rows: Vec<_> = advice.remedies.iter().map(row).collect();
    let said = "Position 0 apart is the host's work and no line of a recipe; as a prefix it is exact and left out of the mean.";
    let said: String = wrapped(said, style.width - 2).into_iter().map(|line| format!("  {line}\n")).collect();
    format!("\nOther remedies, on the search prompts\n{said}{}", table(&columns, &rows, style))
}

fn sites(advice: &Advice, style: Style) -> String {
    let columns = [
        ("site", Align::Left),
        ("worst block", Align::Right),
        ("bits", Align::Right),
        ("local", Align::Right),
        ("cumulative", Align::Right),
    ];
    let decibels = |value: Option<f64>| or_absent(value, |value| format!("{value:.1}"));
    let row = |(site, found): &(Site, &SiteSqnr)| {
        vec![
            site.kind().to_owned(),
            or_absent(site.block().map(f64::from), |block| format!("{block}")),
            or_absent(found.bits.map(f64::from), |bits| format!("{bits}")),
            decibels(found.local_db),
            decibels(found.cumulative_db),
        ]
    };
    let rows: Vec<_> = worst_by_kind(advice).iter().map(row).collect();
    format!(
        "\nSignal over error, dB\n{}{}",
        labelled("  ", "of the median row; of each kind the block whose own quantiser (local) leaves least", style),
        table(&columns, &rows, style)
    )
}

/// Of each kind of site the block whose own quantiser leaves least, in data-flow order.
pub(crate) fn worst_by_kind(advice: &Advice) -> Vec<(Site, &SiteSqnr)> {
    let mut worst: Vec<(Site, &SiteSqnr)> = Vec::new();
    let left = |found: &SiteSqnr| found.local_db.unwrap_or(f64::INFINITY);
    for (site, found) in &advice.sites {
        match worst.iter_mut().find(|(known, _)| known.kind() == site.kind()) {
            Some(known) if left(found) < left(known.1) => *known = (*site, found),
            Some(_) => {}
            None => worst.push((*site, found)),
        }
    }
    worst
}
