//! All files of a run.

use fidelity_reports::write_all;
use fidelity_verdict::Verdict;

use crate::sample::broken;

#[test]
fn a_folder_holds_every_file_and_the_verdict_reads_back() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let run = folder.path().join("runs/demo");
    write_all(&run, &broken(), "fidelity run").expect("written");
    let mut names: Vec<_> = std::fs::read_dir(&run)
        .expect("listed")
        .map(|entry| entry.expect("read").file_name().into_string().expect("UTF-8"))
        .collect();
    names.sort();
    assert_eq!(names, ["junit.xml", "layers.csv", "positions.csv", "report.html", "summary.md", "verdict.json"]);
    let text = std::fs::read_to_string(run.join("verdict.json")).expect("read");
    assert_eq!(Verdict::parse(&text, "verdict.json").expect("valid"), broken());
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error_that_names_it() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = folder.path().join("file");
    std::fs::write(&file, "").expect("written");
    let error = write_all(&file, &broken(), "").expect_err("no folder");
    assert!(error.to_string().contains("cannot write") && error.to_string().contains("file"), "{error}");
}
