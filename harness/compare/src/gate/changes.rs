//! What differs between a run and its baseline that makes them runs of different things.

use std::collections::{BTreeMap, BTreeSet};

use fidelity_verdict::{Baseline, BlessedArm, BlessedCheckpoint, BlessedScope, Change, PromptNumbers};

use super::{error::Changed, numbers_of::RunNumbers};

/// Names shown of many.
const SHOWN: usize = 3;

/// Everything that differs, in the order in which a person would ask.
pub(super) fn changes(baseline: &Baseline, run: &RunNumbers) -> Vec<Changed> {
    let now = &run.numbers;
    let of_checkpoint = checkpoint(&baseline.checkpoint, &now.checkpoint);
    let (was, is) = (&baseline.arm, &now.arm);
    let calibration = differs(Change::Calibration, was.calibration.as_ref(), is.calibration.as_ref());
    let hef = differs(Change::Hef, was.hef_sha256.as_ref(), is.hef_sha256.as_ref());
    let of_arm = [device(was, is), recipe(was, is), calibration, hef];
    of_checkpoint
        .into_iter()
        .chain(of_arm.into_iter().flatten())
        .chain(prompts(baseline, now))
        .chain(scopes(baseline, run))
        .collect()
}

/// What a new baseline says otherwise than the one it takes the place of.
#[must_use]
pub fn replaced(was: &Baseline, is: &Baseline) -> Vec<String> {
    let run = RunNumbers { numbers: is.clone(), failed: BTreeSet::new(), skipped: BTreeSet::new(), repeated: 0 };
    let mut said: Vec<String> =
        changes(was, &run).into_iter().map(|it| format!("{}: {}", it.what.name(), it.said)).collect();
    if was.verdict != is.verdict {
        said.push(format!("verdict: was {}, is {}", was.verdict, is.verdict));
    }
    for (scope, before) in &was.scopes {
        let Some(after) = is.scopes.get(scope) else { continue };
        for (metric, before) in &before.means {
            let Some(after) = after.means.get(metric) else { continue };
            if before.mean.total_cmp(&after.mean).is_ne() {
                said.push(format!("{scope} {}: was {}, is {}", metric.name(), before.mean, after.mean));
            }
        }
    }
    said
}

fn changed(what: Change, said: String) -> Changed {
    Changed { what, said }
}

fn differs(what: Change, was: Option<&String>, is: Option<&String>) -> Option<Changed> {
    let name = |value: Option<&String>| value.map_or("not known", |text| shortened(text)).to_owned();
    (was != is).then(|| changed(what, format!("was {}, is {}", name(was), name(is))))
}

/// Digests in their first 12 digits.
pub(super) fn shortened(text: &str) -> &str {
    let digest = text.len() >= 40 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if digest { &text[..12] } else { text }
}

/// Weights decide; where neither says them, name, source and revision do.
fn checkpoint(was: &BlessedCheckpoint, is: &BlessedCheckpoint) -> Option<Changed> {
    let said = |it: &BlessedCheckpoint| {
        let origin = it
            .revision
            .as_ref()
            .map_or_else(|| it.source.clone(), |revision| format!("{} @ {}", it.source, shortened(revision)));
        let weights = it.weights_sha256.as_deref().map_or("not known", shortened);
        format!("{} ({origin}, weights {weights})", it.name)
    };
    let same = match (&was.weights_sha256, &is.weights_sha256) {
        (Some(was), Some(is)) => was == is,
        (None, None) => was == is,
        _ => false,
    };
    (!same).then(|| changed(Change::Checkpoint, format!("was {}, is {}", said(was), said(is))))
}

fn device(was: &BlessedArm, is: &BlessedArm) -> Option<Changed> {
    let name = |arm: &BlessedArm| {
        if arm.kind.to_string() == arm.device { arm.device.clone() } else { format!("{} {}", arm.kind, arm.device) }
    };
    let same = was.kind == is.kind && was.device == is.device;
    (!same).then(|| changed(Change::Device, format!("was {}, is {}", name(was), name(is))))
}

/// The text decides, not the name.
fn recipe(was: &BlessedArm, is: &BlessedArm) -> Option<Changed> {
    let name = |arm: &BlessedArm| {
        let recipe = arm.recipe.as_ref();
        let recipe =
            recipe.map_or_else(|| "none".to_owned(), |it| format!("{} (text {})", it.name, shortened(&it.sha256)));
        arm.first_position.as_ref().map_or(recipe.clone(), |way| format!("{recipe} with position 0 {way}"))
    };
    let text = |arm: &BlessedArm| arm.recipe.as_ref().map(|recipe| recipe.sha256.clone());
    let same = text(was) == text(is) && was.first_position == is.first_position;
    (!same).then(|| changed(Change::Recipe, format!("was {}, is {}", name(was), name(is))))
}

fn prompts(baseline: &Baseline, run: &Baseline) -> Option<Changed> {
    let tokens = |of: &Baseline| -> BTreeMap<String, String> {
        of.prompts.iter().map(|prompt| (prompt.id.clone(), prompt.sha256.clone())).collect()
    };
    let (was, is) = (tokens(baseline), tokens(run));
    let gone: Vec<&String> = was.keys().filter(|id| !is.contains_key(*id)).collect();
    let new: Vec<&String> = is.keys().filter(|id| !was.contains_key(*id)).collect();
    let other: Vec<&String> =
        was.iter().filter(|(id, sha)| is.get(*id).is_some_and(|its| its != *sha)).map(|(id, _)| id).collect();
    let parts = [(gone, "gone"), (new, "new"), (other, "with other tokens")];
    let said: Vec<String> = parts
        .into_iter()
        .filter(|(ids, _)| !ids.is_empty())
        .map(|(ids, what)| format!("{} {what} ({})", ids.len(), listed(ids.into_iter().map(String::as_str))))
        .collect();
    (!said.is_empty())
        .then(|| changed(Change::Prompts, format!("{}; was {} prompts, is {}", said.join(", "), was.len(), is.len())))
}

fn listed<'a>(names: impl ExactSizeIterator<Item = &'a str>) -> String {
    let more = if names.len() > SHOWN { ", …" } else { "" };
    names.take(SHOWN).collect::<Vec<_>>().join(", ") + more
}

fn scopes(baseline: &Baseline, run: &RunNumbers) -> Vec<Changed> {
    let now = &run.numbers;
    let names = |of: &Baseline| of.scopes.keys().copied().collect::<BTreeSet<_>>();
    let said = |scopes: BTreeSet<fidelity_trace::Scope>| match scopes.is_empty() {
        true => "none".to_owned(),
        false => scopes.iter().map(|scope| scope.name()).collect::<Vec<_>>().join(", "),
    };
    let (was, is) = (names(baseline), names(now));
    let of_scopes = (was != is).then(|| changed(Change::Scopes, format!("were {}, are {}", said(was), said(is))));
    let pairs = baseline.scopes.iter().filter_map(|(scope, held)| Some((scope, held, now.scopes.get(scope)?)));
    let of_rows = pairs.filter_map(|(scope, was, is)| {
        if was.judged_site != is.judged_site {
            return Some(changed(
                Change::Scopes,
                format!("{scope} was judged by {}, is by {}", was.judged_site, is.judged_site),
            ));
        }
        rows(was, is, run).map(|said| changed(Change::Rows, format!("{scope}: {said}")))
    });
    of_scopes.into_iter().chain(of_rows).collect()
}

/// Prompts in which other rows were compared. Those that were not computed are no change, but never a pass.
fn rows(was: &BlessedScope, is: &BlessedScope, run: &RunNumbers) -> Option<String> {
    let counts = |of: &BlessedScope| -> BTreeMap<String, usize> {
        of.prompts.iter().map(|PromptNumbers { id, rows, .. }| (id.clone(), *rows)).collect()
    };
    let (was, is) = (counts(was), counts(is));
    let asked = run.numbers.prompts.iter().map(|prompt| &prompt.id);
    let computed = asked.filter(|id| !run.failed.contains(*id) && !run.skipped.contains(*id));
    let count = |of: &BTreeMap<String, usize>, id: &String| of.get(id).copied().unwrap_or(0);
    let other: Vec<&String> =
        computed.filter(|id| was.contains_key(*id) && count(&was, id) != count(&is, id)).collect();
    let first = other.first()?;
    Some(format!(
        "{} prompts have another number of rows ({}: was {}, is {})",
        other.len(),
        first,
        count(&was, first),
        count(&is, first)
    ))
}
