//! Several arms beside each other.

use std::path::Path;

use fidelity_reports::{ArmReports, Style, arm_folders, arms_csv, arms_html, arms_line, arms_terminal, write_arms};
use fidelity_verdict::{Verdict, worst};
use insta::assert_snapshot;

use crate::sample::{broken, empty, faithful, hostile, not_finite};

fn arms() -> Vec<Verdict> {
    vec![faithful(), broken(), not_finite(), empty()]
}

#[test]
fn arms_in_one_table() {
    let verdicts = arms();
    let arms = ArmReports { verdicts: &verdicts, folders: &[] };
    assert_snapshot!(arms_terminal(&arms, Style::default()));
    assert_snapshot!(arms_line(&arms, Some(Path::new("out/report.html"))));
}

#[test]
fn tables_of_many_arms_fit_the_terminal() {
    let verdicts: Vec<Verdict> = [arms(), arms(), arms(), vec![hostile()]].concat();
    let arms = ArmReports { verdicts: &verdicts, folders: &[] };
    for width in [60, 80, 120] {
        let text = arms_terminal(&arms, Style { width, colour: false });
        assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        assert!(text.contains("#13"), "no arm is dropped: {text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
    let coloured = arms_terminal(&arms, Style { width: 80, colour: true });
    assert!(coloured.contains("\u{1b}[1;31mbroken"));
}

#[test]
fn every_arm_and_scope_is_a_line_of_csv() {
    let verdicts = arms();
    let csv = arms_csv(&ArmReports { verdicts: &verdicts, folders: &arm_folders(&verdicts) });
    let rows: usize = verdicts.iter().map(|verdict| verdict.scopes.len().max(1)).sum();
    assert_eq!(csv.lines().count(), rows + 1);
    assert_snapshot!(csv.lines().take(3).collect::<Vec<_>>().join("\n"));
    let named = [hostile()];
    let csv = arms_csv(&ArmReports { verdicts: &named, folders: &[] });
    assert!(!csv.lines().skip(1).any(|line| line.split(',').nth(2).is_some_and(|name| name.starts_with('='))), "{csv}");
}

#[test]
fn the_page_links_to_every_arm_and_nothing_from_outside_gets_out_of_its_text() {
    let verdicts = [faithful(), hostile()];
    let folders = arm_folders(&verdicts);
    let page = arms_html(&ArmReports { verdicts: &verdicts, folders: &folders }, "fidelity compare").expect("made");
    for folder in &folders {
        assert!(page.contains(&format!("href=\"{folder}/report.html\"")), "{folder}");
        assert!(folder.chars().all(|character| character.is_ascii_alphanumeric() || character == '-'), "{folder}");
    }
    assert!(!page.contains("<script") && !page.contains('\u{202e}'), "{page}");
}

#[test]
fn every_arm_gets_a_folder_with_its_own_files() {
    let place = tempfile::tempdir().expect("a temporary folder");
    let verdicts = arms();
    let folders = arm_folders(&verdicts);
    write_arms(place.path(), &ArmReports { verdicts: &verdicts, folders: &folders }, "").expect("written");
    for (folder, verdict) in folders.iter().zip(&verdicts) {
        let text = std::fs::read_to_string(place.path().join(folder).join("verdict.json")).expect("read");
        assert_eq!(&Verdict::parse(&text, "verdict.json").expect("valid"), verdict);
    }
    assert!(place.path().join("arms.csv").is_file() && place.path().join("report.html").is_file());
}

#[test]
fn a_fidelity_failure_decides_before_a_failed_device_and_that_before_what_is_inconclusive() {
    let with = |exit_code| Verdict { exit_code, ..faithful() };
    let of = |codes: &[u8]| worst(&codes.iter().map(|code| with(*code)).collect::<Vec<_>>());
    assert_eq!(of(&[0, 3, 4, 1, 0]), Some(3));
    assert_eq!(of(&[0, 3, 4]), Some(2));
    assert_eq!(of(&[0, 3]), Some(1));
    assert_eq!(of(&[0, 0]), Some(0), "the first of those alike");
    assert_eq!(of(&[1, 9]), Some(1), "a code of no verdict is no pass");
    assert_eq!(of(&[]), None);
    let excused = Verdict { exit_code: 0, ..broken() };
    assert_eq!(worst(&[faithful(), excused]), Some(1), "what is expected is still the worse outcome");
}
