//! An audit for people. Everything from the file goes through `printable`.

use std::time::Duration;

use fidelity_device::{
    audit::{Audit, Check, Part, State},
    hef::{CacheEdge, Container, Description, Direction, Group, Quantisation, Resource, Severity, Stream},
};
use fidelity_reports::{printable, wrapped};
use jiff::Timestamp;

/// Characters of a name that are shown.
const NAME: usize = 120;
/// Columns of a terminal.
const WIDTH: usize = 80;
/// Streams, caches or resources that are listed one by one.
const LISTED: usize = 24;

/// The whole audit.
pub(crate) fn audit_text(audit: &Audit, name: &str) -> String {
    let hef = &audit.hef;
    let mut text = String::new();
    field(&mut text, "file", &format!("{}, {} bytes", printable(name), hef.size_bytes));
    field(&mut text, "container", &container(&hef.container));
    field(&mut text, "compiler", &compiler(hef));
    field(&mut text, "target", &target(hef));
    field(&mut text, "extensions", &extensions(hef));
    for group in hef.groups.iter().take(LISTED) {
        text.push('\n');
        text.push_str(&group_text(group));
    }
    more(&mut text, hef.groups.len(), "groups");
    if !hef.resources.is_empty() {
        text.push_str("\nResources\n");
        hef.resources.iter().take(LISTED).for_each(|resource| item(&mut text, &resource_text(resource)));
        more(&mut text, hef.resources.len(), "resources");
    }
    findings(&mut text, hef);
    checks(&mut text, audit);
    text
}

/// The last line: outcome, why, wall time.
pub(crate) fn audit_line(audit: &Audit, wall_time: Duration) -> String {
    let count = |state| audit.in_state(state).count();
    let names = |state| {
        let names: Vec<_> = audit.in_state(state).map(id).collect();
        names.join(", ")
    };
    let told = match audit.outcome {
        State::Fail => {
            format!("fail: {} of {} checks fail: {}", count(State::Fail), looked_at(audit), names(State::Fail))
        }
        State::Unknown => {
            format!("unknown: no check fails, but {} cannot be told: {}", count(State::Unknown), names(State::Unknown))
        }
        State::Pass => format!("pass: all {} checks that apply hold", count(State::Pass)),
        State::NotApplicable => {
            format!(
                "not applicable: not a language model, by its groups and resources; as a file it passes all {} checks",
                count(State::Pass)
            )
        }
    };
    let checkpoint = match &audit.checkpoint {
        Some(name) => format!("against checkpoint {}", printable(name)),
        None => "no checkpoint given".into(),
    };
    format!("{told} · {checkpoint} · {:.1} s", wall_time.as_secs_f64())
}

fn looked_at(audit: &Audit) -> usize {
    audit.checks.iter().filter(|check| check.state != State::NotApplicable).count()
}

pub(crate) fn id(check: &Check) -> String {
    serde_json::to_value(check.id).ok().and_then(|id| id.as_str().map(ToOwned::to_owned)).unwrap_or_default()
}

/// A name from the file, cut where it is absurdly long.
fn shown(name: &str) -> String {
    let cut = name.char_indices().nth(NAME).map_or(name, |(end, _)| &name[..end]);
    let dots = if cut.len() < name.len() { "…" } else { "" };
    format!("{}{dots}", printable(cut))
}

/// `name        text`, wrapped under the text.
fn field(text: &mut String, name: &str, value: &str) {
    indented(text, &format!("{name:<12}"), value);
}

/// `  text`, wrapped.
fn item(text: &mut String, value: &str) {
    indented(text, "  ", value);
}

fn indented(text: &mut String, first: &str, value: &str) {
    let indent = first.chars().count();
    for (number, line) in wrapped(value, WIDTH - indent).into_iter().enumerate() {
        let before = if number == 0 { first.to_owned() } else { " ".repeat(indent) };
        text.push_str(&format!("{before}{line}\n"));
    }
}

fn more(text: &mut String, count: usize, what: &str) {
    if let Some(rest) = count.checked_sub(LISTED).filter(|rest| *rest > 0) {
        item(text, &format!("… and {rest} more {what} (--json lists all)"));
    }
}

fn container(container: &Container) -> String {
    let sections = [
        ("header", container.header_bytes),
        ("protobuf", container.proto_bytes),
        ("padding", container.padding_bytes),
        ("ccws", container.ccws_bytes),
        ("additional info", container.additional_info_bytes),
    ];
    let sections = sections.iter().filter(|(_, bytes)| *bytes > 0).map(|(name, bytes)| format!("{name} {bytes}"));
    let sections = sections.collect::<Vec<_>>().join(", ");
    let zero =
        container.offset_zero_point.map_or_else(String::new, |point| format!("; offsets count from byte {point}"));
    format!("HEF version {}, in bytes: {sections}{zero}", container.version)
}

fn compiler(hef: &Description) -> String {
    let [major, minor, revision] = hef.compiler.version;
    let number = if hef.compiler.version == [0; 3] { String::new() } else { format!("{major}.{minor}.{revision} ") };
    let made = i64::try_from(hef.compiler.timestamp_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    let made = made.map_or_else(|| "at an unknown time".into(), |time| time.strftime("%Y-%m-%d %H:%M UTC").to_string());
    format!("{number}({}), {made}", shown(&hef.compiler.version_text))
}

fn target(hef: &Description) -> String {
    let target = &hef.target;
    let name = target.name.map_or_else(|| "not known".to_owned(), ToOwned::to_owned);
    match target.compatible.is_empty() {
        true => format!("architecture {} ({name}): runs on no device that HailoRT 5.2 knows", target.code),
        false => format!("architecture {} ({name}): runs on {}", target.code, target.compatible.join(", ")),
    }
}

fn extensions(hef: &Description) -> String {
    let numbers = |list: &[fidelity_device::hef::Extension]| {
        let numbers: Vec<_> = list.iter().take(64).map(|extension| extension.index.to_string()).collect();
        if numbers.is_empty() { "none".to_owned() } else { numbers.join(" ") }
    };
    format!("mandatory {}; optional {}", numbers(&hef.extensions.mandatory), numbers(&hef.extensions.optional))
}

fn group_text(group: &Group) -> String {
    let networks = group.networks.iter().take(4).map(|name| shown(name)).collect::<Vec<_>>().join(", ");
    let contexts = if group.contexts == 1 { "1 context".into() } else { format!("{} contexts", group.contexts) };
    let counts = group.edge_counts;
    let mut text = String::new();
    let heading = format!("Group {} (network {networks}): {contexts}", shown(&group.name));
    indented(&mut text, "", &heading);
    let inner = counts.intermediate + counts.ddr;
    if inner > 0 {
        item(&mut text, &format!("{} edges between contexts, {} through host memory", counts.intermediate, counts.ddr));
    }
    if !group.layouts.is_empty() {
        item(&mut text, &format!("{} layouts; the first is shown", group.layouts.len()));
    }
    for (title, streams) in [("in", &group.inputs), ("out", &group.outputs)] {
        for stream in streams.iter().take(LISTED) {
            indented(&mut text, &format!("  {title:<4}"), &stream_text(stream));
        }
        more(&mut text, streams.len(), if title == "in" { "inputs" } else { "outputs" });
    }
    for line in caches(&group.cache_edges) {
        indented(&mut text, "  cache ", &line);
    }
    for post in &group.post_processing {
        item(&mut text, &format!("post-processing on the host: {}", shown(post)));
    }
    text
}

fn stream_text(stream: &Stream) -> String {
    let layout = &stream.layout;
    let order = match (layout.host, layout.device) {
        (Some(host), Some(device)) if host == device => host.to_owned(),
        (Some(host), Some(device)) => format!("{host} (device {device})"),
        _ => format!("format {}", layout.format),
    };
    let kind = stream.data_type.map_or_else(|| format!("{} bytes", stream.data_bytes), ToOwned::to_owned);
    let [height, width, features] = stream.shape;
    let numbers = stream.quantisation.as_ref().map_or_else(|| "no quantisation".into(), quantisation);
    format!("{}  {height}x{width}x{features} {kind} {order}, {numbers}", shown(&stream.name))
}

fn quantisation(numbers: &Quantisation) -> String {
    let Quantisation { scale, zero_point, per_feature, scales, .. } = numbers;
    match *per_feature && !scales.is_empty() {
        true => {
            let (low, high) =
                scales.iter().fold((f64::INFINITY, 0.0), |(low, high), scale| (scale.min(low), scale.max(high)));
            format!("{} scales, one a feature, {low:.6} to {high:.6}", scales.len())
        }
        false => format!("scale {scale:.6}, zero point {zero_point}"),
    }
}

/// Caches of one shape in one line.
fn caches(edges: &[CacheEdge]) -> Vec<String> {
    let mut lines: Vec<(String, Vec<i32>)> = Vec::new();
    for edge in edges {
        let [height, width, features] = edge.stream.padded_shape;
        let verb = match edge.stream.direction {
            Direction::In => "read",
            Direction::Out => "written",
        };
        let kind = edge.stream.data_type.unwrap_or("?");
        let order = edge.stream.layout.device.unwrap_or("?");
        let line = format!("{verb} {height}x{width}x{features} {kind} {order}");
        match lines.iter().position(|(known, _)| *known == line) {
            Some(at) => lines[at].1.push(edge.cache_id),
            None if lines.len() < LISTED => lines.push((line, vec![edge.cache_id])),
            None => {}
        }
    }
    let told = |(line, mut ids): (String, Vec<i32>)| {
        ids.sort_unstable();
        format!("{line}: ids {}", ranges(&ids))
    };
    lines.into_iter().map(told).collect()
}

/// `0-47` or `0, 2, 3`
fn ranges(ids: &[i32]) -> String {
    match ids {
        [first, .., last] if i64::from(*last) - i64::from(*first) + 1 == ids.len() as i64 => format!("{first}-{last}"),
        _ => {
            let mut shown = ids.iter().take(LISTED).map(i32::to_string).collect::<Vec<_>>().join(", ");
            if ids.len() > LISTED {
                shown.push_str(", …");
            }
            shown
        }
    }
}

fn resource_text(resource: &Resource) -> String {
    let place = resource.file_offset.map_or_else(|| "not inside the file".into(), |at| format!("at byte {at}"));
    let hash = match (resource.hash_matches(), &resource.stored_hash, &resource.computed_hash) {
        (Some(true), Some(stored), _) => format!("XXH3-64 {stored}, as stored"),
        (Some(false), Some(stored), Some(computed)) => format!("XXH3-64 {computed}, stored {stored}"),
        (_, Some(stored), None) => format!("XXH3-64 {stored} stored, not computed"),
        (_, _, Some(computed)) => format!("XXH3-64 {computed}, none stored"),
        _ => "no hash".into(),
    };
    format!("{}  {} bytes {place}, {hash}", shown(&resource.name), resource.size_bytes)
}

fn findings(text: &mut String, hef: &Description) {
    if hef.findings.is_empty() {
        return;
    }
    text.push_str("\nFindings\n");
    for finding in &hef.findings {
        let severity = match finding.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        };
        let told = format!("{}: {}", printable(&finding.place), printable(&finding.message));
        indented(text, &format!("  {severity:<9}"), &told);
    }
}

/// Checks by part. Why one matters is said where it does not hold; those that do not apply are counted.
fn checks(text: &mut String, audit: &Audit) {
    for (part, title) in [
        (Part::File, "Is the file whole?"),
        (Part::Contract, "Does it keep the contract of a language model?"),
        (Part::Checkpoint, "Is it the checkpoint's?"),
    ] {
        text.push_str(&format!("\n{title}\n"));
        let (not, checks): (Vec<&Check>, Vec<&Check>) = audit
            .checks
            .iter()
            .filter(|check| check.part == part)
            .partition(|check| check.state == State::NotApplicable);
        for check in checks {
            let state = match check.state {
                State::Fail => "FAIL",
                other => other.name(),
            };
            indented(text, &format!("  {state:<8}{:<22}", id(check)), &printable(&check.found));
            if check.state != State::Pass {
                indented(text, &" ".repeat(32), &format!("why: {}", check.why));
            }
        }
        not_applicable(text, &not);
    }
}

fn not_applicable(text: &mut String, checks: &[&Check]) {
    let mut reasons: Vec<&str> = checks.iter().map(|check| check.found.as_str()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    for reason in reasons {
        let ids: Vec<_> = checks.iter().filter(|check| check.found == reason).map(|check| id(check)).collect();
        item(text, &format!("not applicable ({}): {}", printable(reason), ids.join(", ")));
    }
}
