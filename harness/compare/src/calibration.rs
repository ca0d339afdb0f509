//! Whether the values that a quantised arm met are those that its ranges were calibrated for.

use std::collections::BTreeMap;

use fidelity_trace::{OutsideRange, Scope, Site};

/// A site's values do not fit its range where more than this share of them lies outside, some of them by more than a tenth of its
/// width …
const SHARE: f64 = 0.001;
const NEAR: f64 = 0.1;
/// … or one of them farther outside than the range is wide. SmolLM2-135M on 1218 tokens: at most 0.007 % outside and 0.7 widths when
/// calibrated on text, at least 0.8 % and 1.2 widths when calibrated on random values.
const WIDTHS: f64 = 1.0;

/// What lies outside in a scope, over all prompts: of their values at a site, also of those prompts in which none does. Sites at
/// which nothing lies outside are left out.
pub(crate) fn outside_range(
    scope: Scope,
    prompts: &[BTreeMap<Scope, BTreeMap<Site, OutsideRange>>],
) -> BTreeMap<Site, OutsideRange> {
    let mut all: BTreeMap<Site, OutsideRange> = BTreeMap::new();
    for (site, more) in prompts.iter().filter_map(|prompt| prompt.get(&scope)).flatten() {
        let so_far = all.entry(*site).or_default();
        *so_far = OutsideRange {
            values: so_far.values.saturating_add(more.values),
            outside: so_far.outside.saturating_add(more.outside),
            widths: so_far.widths.max(more.widths),
        };
    }
    all.retain(|_, range| range.outside > 0);
    all
}

/// Says where values do not fit their ranges. `calibration_range` names it as a mismatch of the calibration: the first such
/// site does not stand behind the first bad one, so that the arm's own error explains nothing there. `tbt_self` is a probe that
/// no calibration sees.
pub(crate) fn note(scope: Scope, sites: &BTreeMap<Site, OutsideRange>, first_bad: Option<Site>) -> Option<String> {
    let share = |range: &OutsideRange| range.outside as f64 / range.values.max(1) as f64;
    let misfits = |range: &OutsideRange| (share(range) > SHARE && range.widths > NEAR) || range.widths > WIDTHS;
    let misfits: Vec<_> = sites.iter().filter(|(_, range)| misfits(range)).collect();
    let (first, _) = misfits.first().filter(|_| scope != Scope::TbtSelf)?;
    let worst = |by: &dyn Fn(&OutsideRange) -> f64| misfits.iter().max_by(|a, b| by(a.1).total_cmp(&by(b.1))).copied();
    let (most, farthest) = worst(&share).zip(worst(&|range| range.widths))?;
    let (name, meaning) = match first_bad.is_some_and(|bad| bad < **first) {
        true => ("", "the arm is wrong before the first of them, which may be why"),
        false => ("calibration_range: ", "the ranges were calibrated on other values than those of these prompts"),
    };
    let sites = if misfits.len() == 1 { "1 site".to_owned() } else { format!("{} sites", misfits.len()) };
    Some(format!(
        "{name}in {scope}, values of {sites} do not fit their calibrated ranges: first {first}, most at {} ({} outside), farthest at \
         {} ({:.2} range widths); {meaning}",
        most.0,
        percent(share(most.1)),
        farthest.0,
        farthest.1.widths,
    ))
}

/// A share above 0 never prints as 0.
fn percent(share: f64) -> String {
    if share < 1e-4 { "below 0.01 %".to_owned() } else { format!("{:.2} %", share * 100.0) }
}

#[cfg(test)]
mod tests {
    use fidelity_trace::BlockSite;

    use super::*;

    const ACT: Site = Site::Block(3, BlockSite::Act);

    fn counted(outside: u64, widths: f64) -> BTreeMap<Site, OutsideRange> {
        let prompt = |outside| {
            let range = OutsideRange { values: 10_000, outside, widths };
            BTreeMap::from([(Scope::Base, BTreeMap::from([(ACT, range)]))])
        };
        outside_range(Scope::Base, &[prompt(outside), BTreeMap::new(), prompt(0)])
    }

    #[test]
    fn counts_of_prompts_add_up() {
        assert_eq!(counted(30, 0.5)[&ACT], OutsideRange { values: 20_000, outside: 30, widths: 0.5 });
        assert!(outside_range(Scope::Tbt, &[]).is_empty());
        assert!(counted(0, 0.0).is_empty(), "nothing lies outside");
    }

    #[test]
    fn a_mismatch_is_named_and_a_few_values_just_outside_are_none() {
        assert_eq!(note(Scope::Base, &counted(20, 0.9), None), None);
        // Of a short prompt, one value is a share.
        assert_eq!(note(Scope::Base, &counted(500, 0.001), None), None);
        let named = note(Scope::Base, &counted(500, 0.9), Some(ACT)).expect("a mismatch");
        assert!(named.starts_with("calibration_range: in base, values of 1 site do not fit"), "{named}");
        let where_ = "most at blocks.3.act (2.50 % outside), farthest at blocks.3.act (0.90 range widths)";
        assert!(named.contains(where_), "{named}");
        assert!(note(Scope::Base, &counted(1, 1.5), None).is_some_and(|note| note.starts_with("calibration_range")));
        assert_eq!(note(Scope::TbtSelf, &counted(500, 9.0), None), None);
    }

    #[test]
    fn what_an_arm_that_is_wrong_already_clips_is_not_blamed_on_the_calibration() {
        let before = Site::Block(3, BlockSite::Up);
        let note = note(Scope::Base, &counted(500, 0.9), Some(before)).expect("said");
        assert!(note.starts_with("in base, values of 1 site") && note.ends_with("which may be why"), "{note}");
    }
}
