//! A check of the reference on a terminal.

use std::{path::Path, time::Duration};

use fidelity_references::{CheckOutcome, OpinionRow, ReferenceCheck, SiteDistance};
use fidelity_reports::{Align, Style, duration, labelled, magnitude, printable, table};
use fidelity_trace::Site;

/// How many rows of the second opinion are shown.
const SHOWN: usize = 5;

pub(crate) fn tables(check: &ReferenceCheck, style: Style) -> String {
    let sections = [header(check, style), by_site(check, style), by_block(check, style), opinion(check, style)];
    sections.into_iter().filter(|section| !section.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The last line.
pub(crate) fn line(check: &ReferenceCheck, wall_time: Duration, file: &Path) -> String {
    format!(
        "{}: float32 reference of {} · {} · {} · check {}\n",
        check.outcome.name(),
        printable(&check.checkpoint.name),
        printable(&check.reason),
        duration(wall_time),
        printable(&file.display().to_string())
    )
}

fn header(check: &ReferenceCheck, style: Style) -> String {
    let identity = &check.checkpoint;
    let positions: usize = check.prompts.iter().map(|prompt| prompt.tokens).sum();
    let entries = [
        ("checkpoint  ", format!("{} ({})", identity.name, identity.source)),
        ("prompts     ", format!("{}, {positions} positions", check.prompts.len())),
    ];
    let mut text: String = entries.iter().map(|(label, text)| labelled(label, &printable(text), style)).collect();
    text.push('\n');
    let noise = ("float32 against float64", check.noise.outcome, &check.noise.reason);
    let opinion = ("second opinion", check.second_opinion.outcome, &check.second_opinion.reason);
    let names: Vec<_> = check.chunks.iter().map(|part| named(part.tokens)).collect();
    let chunks = check.chunks.iter().zip(&names).map(|(part, name)| (name.as_str(), part.outcome, &part.reason));
    for (name, outcome, reason) in [noise, opinion].into_iter().chain(chunks) {
        text.push_str(&labelled(&format!("{:<16}", word(outcome)), &format!("{name}: {}", printable(reason)), style));
    }
    let about = check.second_opinion.implementation.iter();
    let remarks = about.flat_map(|about| about.passed_over.iter().chain(&about.worked_around));
    remarks.for_each(|remark| text.push_str(&labelled("                - ", &printable(remark), style)));
    text
}

fn named(tokens: usize) -> String {
    if tokens == 1 { "steps".to_owned() } else { format!("chunks of {tokens}") }
}

fn word(outcome: CheckOutcome) -> String {
    outcome.name().to_uppercase()
}

/// The worst row of each kind of site.
fn by_site(check: &ReferenceCheck, style: Style) -> String {
    let of_one_block = |site: &&Site| site.block().is_none_or(|block| block == 0);
    let kinds = check.noise.sites.keys().filter(of_one_block).map(|site| site.kind());
    let mut columns = vec![("site", Align::Left), ("noise", Align::Right), ("median", Align::Right)];
    columns.extend([("block", Align::Right), ("prompt", Align::Left), ("position", Align::Right)]);
    columns.extend(check.chunks.iter().map(|part| (chunk_name(part.tokens), Align::Right)));
    let rows: Vec<Vec<String>> = kinds
        .filter_map(|kind| {
            let (site, worst) = worst_of(check.noise.sites.iter().filter(|(site, _)| site.kind() == kind))?;
            let mut cells = vec![kind.to_owned(), magnitude(worst.worst.relative_l2), magnitude(worst.median)];
            cells.extend(place(check, *site, worst));
            cells.extend(check.chunks.iter().map(|part| {
                let of_kind =
                    part.sites.iter().filter(|(site, _)| site.kind() == kind).map(|(_, distance)| distance.max);
                of_kind.max_by(f64::total_cmp).map_or_else(|| "–".to_owned(), magnitude)
            }));
            Some(cells)
        })
        .collect();
    let title = "Largest row by site, relative L2: noise is float32 against float64 (median: of the rows of that site); steps and \
                 chunks through the cache are against one pass";
    labelled("", title, style) + &table(&columns, &rows, style)
}

const fn chunk_name(tokens: usize) -> &'static str {
    match tokens {
        1 => "steps",
        7 => "by 7",
        32 => "by 32",
        _ => "chunks",
    }
}

/// Block, prompt and position of a site's worst row.
fn place(check: &ReferenceCheck, site: Site, distance: &SiteDistance) -> [String; 3] {
    let block = site.block().map_or_else(|| "–".to_owned(), |block| block.to_string());
    [block, prompt(check, distance.worst.prompt), distance.worst.position.to_string()]
}

fn prompt(check: &ReferenceCheck, index: usize) -> String {
    let id: String = check.prompts.get(index).map_or("", |prompt| &prompt.id).chars().take(12).collect();
    printable(&id)
}

/// The site nearest to its bar, or furthest above.
fn worst_of<'a>(sites: impl Iterator<Item = (&'a Site, &'a SiteDistance)>) -> Option<(&'a Site, &'a SiteDistance)> {
    sites.reduce(|worst, site| if site.1.worst.excess() > worst.1.worst.excess() { site } else { worst })
}

/// The worst site of each block.
fn by_block(check: &ReferenceCheck, style: Style) -> String {
    let blocks = check.noise.sites.keys().filter_map(|site| site.block()).max().map_or(0, |last| last + 1);
    let rows: Vec<Vec<String>> = (0..blocks)
        .filter_map(|block| {
            let (site, worst) = worst_of(check.noise.sites.iter().filter(|(site, _)| site.block() == Some(block)))?;
            let output =
                check.noise.sites.iter().find(|(site, _)| site.block() == Some(block) && site.kind() == "resid_post");
            let output = output.map_or_else(|| "–".to_owned(), |(_, site)| magnitude(site.worst.relative_l2));
            let [_, prompt, position] = place(check, *site, worst);
            let noise = magnitude(worst.worst.relative_l2);
            Some(vec![block.to_string(), output, noise, site.kind().to_owned(), prompt, position])
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let columns = [("block", Align::Right), ("resid_post", Align::Right), ("worst", Align::Right)];
    let columns = columns.into_iter().chain([("at", Align::Left), ("prompt", Align::Left), ("position", Align::Right)]);
    labelled("", "Noise by block: the worst row of its output, and of its worst site", style)
        + &table(&columns.collect::<Vec<_>>(), &rows, style)
}

/// The rows that are nearest to their bars, or furthest above.
fn opinion(check: &ReferenceCheck, style: Style) -> String {
    let part = &check.second_opinion;
    let (Some(about), Some(logits)) = (&part.implementation, &part.logits) else { return String::new() };
    let mut rows: Vec<&OpinionRow> = part.rows.iter().collect();
    rows.sort_by(|a, b| b.as_row().excess().total_cmp(&a.as_row().excess()));
    let shown = rows.iter().take(SHOWN).map(|row| {
        let numbers = [row.relative_l2, row.bar, row.noise, row.max_abs].map(magnitude);
        let choice = if row.same_choice { "same" } else { "other" };
        let mut cells = vec![prompt(check, row.prompt), row.position.to_string()];
        cells.extend(numbers);
        cells.push(choice.to_owned());
        cells
    });
    let columns = [("prompt", Align::Left), ("position", Align::Right), ("relative L2", Align::Right)];
    let columns =
        columns.into_iter().chain([("bar", Align::Right), ("noise", Align::Right), ("max |Δ|", Align::Right)]);
    let columns: Vec<_> = columns.chain([("choice", Align::Left)]).collect();
    let title = format!(
        "Logits against {} {}, the {} rows nearest to their bars of {} (median relative L2 {})",
        about.library,
        about.module,
        SHOWN.min(rows.len()),
        logits.rows,
        magnitude(logits.median)
    );
    labelled("", &title, style) + &table(&columns, &shown.collect::<Vec<_>>(), style)
}
