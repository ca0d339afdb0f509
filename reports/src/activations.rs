//! An activation profile on a terminal and as CSV.

use std::collections::BTreeMap;

use fidelity_trace::Site;
use fidelity_verdict::{ActivationProfile, SiteActivations};

use crate::{
    identity::checkpoint_name,
    numbers::{magnitude, or_absent},
    terminal::{Align, Style, labelled, table},
};

/// Massive activations shown on a terminal.
const MOST_SHOWN: usize = 10;

/// The profile in tables: by kind of site the hardest block, then massive activations, sinks and norms.
#[must_use]
pub fn activations_terminal(profile: &ActivationProfile, style: Style) -> String {
    let mut text = labelled("checkpoint  ", &checkpoint_name(&profile.checkpoint), style);
    let size = format!("{} prompts, {} tokens, float32 reference", profile.prompts.len(), profile.tokens);
    text += &labelled("activations ", &size, style);
    text += "\nBy kind of site, the block whose median row 8 bits hurt most (SQNR, dB)\n";
    let columns = [
        ("site", Align::Left),
        ("block", Align::Right),
        ("min", Align::Right),
        ("max", Align::Right),
        ("median |x|", Align::Right),
        ("99.9 %", Align::Right),
        ("kurtosis", Align::Right),
        ("8 bit", Align::Right),
        ("16 bit", Align::Right),
    ];
    let rows: Vec<Vec<String>> = hardest(profile).into_iter().map(|(site, found)| site_row(site, found)).collect();
    text += &table(&columns, &rows, style);
    text += &massive(profile, style);
    text += &sinks(profile, style);
    text += &norms(profile, style);
    text
}

/// Of each kind of site, the one whose median row keeps the least of 8 bits, in data-flow order.
fn hardest(profile: &ActivationProfile) -> Vec<(Site, &SiteActivations)> {
    let mut by_kind: Vec<(Site, &SiteActivations)> = Vec::new();
    let mut index: BTreeMap<&str, usize> = BTreeMap::new();
    let left = |found: &SiteActivations| found.sqnr_8.median_row_db.unwrap_or(f64::INFINITY);
    for (site, found) in &profile.sites {
        match index.get(site.kind()) {
            Some(at) if left(found) >= left(by_kind[*at].1) => {}
            Some(at) => by_kind[*at] = (*site, found),
            None => {
                index.insert(site.kind(), by_kind.len());
                by_kind.push((*site, found));
            }
        }
    }
    by_kind
}

fn site_row(site: Site, found: &SiteActivations) -> Vec<String> {
    let decibels = |value: Option<f64>| or_absent(value, |value| format!("{value:.1}"));
    vec![
        site.kind().to_owned(),
        site.block().map_or_else(|| "–".to_owned(), |block| block.to_string()),
        magnitude(found.min),
        magnitude(found.max),
        magnitude(found.magnitude.p50),
        magnitude(found.magnitude.p999),
        or_absent(found.kurtosis, magnitude),
        decibels(found.sqnr_8.median_row_db),
        decibels(found.sqnr_16.median_row_db),
    ]
}

fn massive(profile: &ActivationProfile, style: Style) -> String {
    if profile.massive.is_empty() {
        return "\nNo value is 100 × the median magnitude of its site.\n".to_owned();
    }
    let columns = [
        ("site", Align::Left),
        ("channel", Align::Right),
        ("value", Align::Right),
        ("× median", Align::Right),
        ("position", Align::Right),
        ("prompt", Align::Left),
        ("rows", Align::Right),
    ];
    let row = |found: &fidelity_verdict::MassiveActivation| {
        let prompt = profile.prompts.get(found.peak.prompt).map_or("–", String::as_str);
        vec![
            found.site.to_string(),
            found.peak.channel.to_string(),
            magnitude(found.peak.value),
            magnitude(found.ratio),
            found.peak.position.to_string(),
            crate::printable(prompt),
            found.rows.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = profile.massive.iter().take(MOST_SHOWN).map(row).collect();
    let more = profile.massive.len().saturating_sub(MOST_SHOWN);
    let more = if more > 0 { format!("  {more} more in massive.csv\n") } else { String::new() };
    format!(
        "\nMassive activations: channels at least 100 × the median of their site\n{}{more}",
        table(&columns, &rows, style)
    )
}

fn sinks(profile: &ActivationProfile, style: Style) -> String {
    let highest = profile.sinks.iter().max_by(|a, b| a.mean.total_cmp(&b.mean));
    let Some(highest) = highest else { return String::new() };
    let mean = profile.sinks.iter().map(|sink| sink.mean).fold(0.0, f64::max);
    let half = profile.sinks.iter().filter(|sink| sink.mean > 0.5).count();
    let said = format!(
        "most in block {}: {:.0} % of all attention goes to the first token (head {}: {:.0} %); above 50 % in {half} of {} blocks",
        highest.block,
        mean * 100.0,
        highest.head,
        highest.head_mean * 100.0,
        profile.sinks.len()
    );
    format!("\n{}", labelled("attention sink  ", &said, style))
}

fn norms(profile: &ActivationProfile, style: Style) -> String {
    let lowest = profile.norms.iter().min_by(|a, b| a.min.total_cmp(&b.min));
    let highest = profile.norms.iter().max_by(|a, b| a.max.total_cmp(&b.max));
    let Some((lowest, highest)) = lowest.zip(highest) else { return String::new() };
    let said = format!(
        "mean square of a row from {} ({}) to {} ({})",
        magnitude(lowest.min),
        lowest.site,
        magnitude(highest.max),
        highest.site
    );
    let act = profile.sites.iter().filter(|(site, _)| site.kind() == "act").map(|(_, found)| found);
    let range = act.fold((0.0_f64, 0.0_f64), |(min, max), found| (min.min(found.min), max.max(found.max)));
    let product = format!("{} to {}", magnitude(range.0), magnitude(range.1));
    labelled("norm inputs     ", &said, style) + &labelled("MLP products    ", &product, style)
}

const SITES: [&str; 22] = [
    "site",
    "kind",
    "block",
    "values",
    "non_finite",
    "min",
    "max",
    "largest",
    "largest_prompt",
    "largest_position",
    "largest_channel",
    "abs_p50",
    "abs_p99",
    "abs_p99_9",
    "abs_p99_99",
    "kurtosis",
    "sqnr_8_whole_db",
    "sqnr_8_median_row_db",
    "sqnr_16_whole_db",
    "sqnr_16_median_row_db",
    "norm_input_mean_square_min",
    "norm_input_mean_square_max",
];

/// One line a site.
#[must_use]
pub fn activation_sites_csv(profile: &ActivationProfile) -> String {
    let rows = profile.sites.iter().map(|(site, found)| {
        let norm = profile.norms.iter().find(|norm| norm.site == *site);
        [
            site.to_string(),
            site.kind().to_owned(),
            site.block().map_or_else(String::new, |block| block.to_string()),
            found.values.to_string(),
            found.non_finite.to_string(),
            number(Some(found.min)),
            number(Some(found.max)),
            number(Some(found.largest.value)),
            outside(profile, found.largest.prompt),
            found.largest.position.to_string(),
            found.largest.channel.to_string(),
            number(Some(found.magnitude.p50)),
            number(Some(found.magnitude.p99)),
            number(Some(found.magnitude.p999)),
            number(Some(found.magnitude.p9999)),
            number(found.kurtosis),
            number(found.sqnr_8.whole_db),
            number(found.sqnr_8.median_row_db),
            number(found.sqnr_16.whole_db),
            number(found.sqnr_16.median_row_db),
            number(norm.map(|norm| norm.min)),
            number(norm.map(|norm| norm.max)),
        ]
    });
    crate::csv::lines(&SITES, rows)
}

/// The largest magnitude by site and position.
#[must_use]
pub fn activation_positions_csv(profile: &ActivationProfile) -> String {
    let rows = profile.sites.iter().flat_map(|(site, found)| {
        let by_position = found.by_position.iter().enumerate();
        by_position.filter_map(move |(position, largest)| {
            Some([site.to_string(), position.to_string(), number(Some((*largest)?))])
        })
    });
    crate::csv::lines(&["site", "position", "largest_magnitude"], rows)
}

/// The channels with the largest magnitudes, by site.
#[must_use]
pub fn activation_channels_csv(profile: &ActivationProfile) -> String {
    let rows = profile.sites.iter().flat_map(|(site, found)| {
        found
            .channels
            .iter()
            .map(move |peak| [site.to_string(), peak.channel.to_string(), number(Some(peak.magnitude))])
    });
    crate::csv::lines(&["site", "channel", "largest_magnitude"], rows)
}

/// The massive activations, the farthest first.
#[must_use]
pub fn massive_csv(profile: &ActivationProfile) -> String {
    let rows = profile.massive.iter().map(|found| {
        [
            found.site.to_string(),
            found.site.block().map_or_else(String::new, |block| block.to_string()),
            found.peak.position.to_string(),
            found.peak.channel.to_string(),
            outside(profile, found.peak.prompt),
            number(Some(found.peak.value)),
            number(Some(found.ratio)),
            found.rows.to_string(),
        ]
    });
    crate::csv::lines(&["site", "block", "position", "channel", "prompt", "value", "ratio_to_median", "rows"], rows)
}

/// Attention to the first token, by block.
#[must_use]
pub fn sinks_csv(profile: &ActivationProfile) -> String {
    let rows = profile.sinks.iter().map(|sink| {
        [sink.block.to_string(), number(Some(sink.mean)), sink.head.to_string(), number(Some(sink.head_mean))]
    });
    crate::csv::lines(&["block", "mean_share", "highest_head", "highest_head_share"], rows)
}

fn number(value: Option<f64>) -> String {
    value.map_or_else(String::new, |value| value.to_string())
}

fn outside(profile: &ActivationProfile, prompt: usize) -> String {
    profile.prompts.get(prompt).map_or_else(String::new, |id| crate::csv::outside_text(id))
}
