//! What was forged, on a terminal.

use std::{path::Path, time::Duration};

use fidelity_verdict::{Forging, SiteProof};

use crate::{
    numbers::magnitude,
    terminal::{Align, Style, duration, labelled, table},
    text::printable,
};

/// What was done, and the worst site of each kind.
#[must_use]
pub fn forging_terminal(forging: &Forging, style: Style) -> String {
    let mut text = labelled("source      ", &printable(&source(forging)), style);
    text += &labelled("steps       ", &steps(forging), style);
    let prompts = format!("{} prompts of {} tokens, both in float64", forging.prompts, forging.positions);
    text += &labelled("proved on   ", &prompts, style);
    let weights = match forging.copied {
        true => "the source's, zeros, powers of two: float64 agrees to its own rounding",
        false => "computed in float64, rounded once to float32: within 8 × float32's own error",
    };
    text += &labelled("weights     ", weights, style);
    let columns = [
        ("site", Align::Left),
        ("compared", Align::Right),
        ("worst", Align::Left),
        ("relative L2", Align::Right),
        ("tolerance", Align::Right),
    ];
    let mut kinds: Vec<&'static str> = Vec::new();
    for proof in &forging.sites {
        if !kinds.contains(&proof.site.kind()) {
            kinds.push(proof.site.kind());
        }
    }
    let rows = kinds.into_iter().filter_map(|kind| {
        let of_kind = || forging.sites.iter().filter(|proof| proof.site.kind() == kind);
        let worst = of_kind().max_by(|one, other| share(one).total_cmp(&share(other)))?;
        Some(vec![
            kind.to_owned(),
            of_kind().count().to_string(),
            worst.site.to_string(),
            magnitude(worst.relative_l2),
            magnitude(worst.tolerance),
        ])
    });
    text += &format!("\n{}", table(&columns, &rows.collect::<Vec<_>>(), style));
    for note in &forging.notes {
        text += &labelled("  - ", &printable(note), style);
    }
    text
}

/// How much of its tolerance a site used.
fn share(proof: &SiteProof) -> f64 {
    proof.relative_l2 / proof.tolerance
}

fn source(forging: &Forging) -> String {
    format!("{} ({})", forging.source_name, forging.source)
}

fn steps(forging: &Forging) -> String {
    if forging.steps.is_empty() { "none: a copy in float32".into() } else { printable(&forging.steps.join(" ")) }
}

/// The line that ends the command.
#[must_use]
pub fn forging_line(forging: &Forging, wall_time: Duration, folder: &Path) -> String {
    let worst = forging.sites.iter().max_by(|one, other| share(one).total_cmp(&share(other)));
    let proof = worst.map_or_else(String::new, |worst| {
        format!(" · {} of tolerance {} at {}", magnitude(worst.relative_l2), magnitude(worst.tolerance), worst.site)
    });
    format!(
        "forged: {} of {} · {}{proof} · {} · {}",
        printable(&forging.name),
        printable(&forging.source_name),
        steps(forging),
        duration(wall_time),
        printable(&folder.display().to_string())
    )
}
