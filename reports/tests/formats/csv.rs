//! positions.csv and layers.csv.

use fidelity_reports::{layers_csv, positions_csv};
use insta::assert_snapshot;

use crate::sample::{broken, empty, encoder, hostile, not_finite};

#[test]
fn every_row_of_logits_is_a_line() {
    assert_snapshot!(positions_csv(&not_finite()));
}

#[test]
fn what_is_of_logits_only_is_empty_in_an_encoder() {
    let text = positions_csv(&encoder());
    let cells: Vec<&str> = text.lines().nth(1).expect("a row").split(',').collect();
    assert_eq!(&cells[10..18], ["", "", "", "", "", "", "", "final_norm"]);
    assert!(cells[18].parse::<f64>().is_ok(), "{cells:?}");
}

#[test]
fn every_site_is_a_line() {
    assert_snapshot!(layers_csv(&broken()));
}

#[test]
fn nothing_compared_leaves_only_the_headers() {
    assert_eq!(positions_csv(&empty()).lines().count(), 1);
    assert_eq!(layers_csv(&empty()).lines().count(), 1);
}

#[test]
fn an_id_is_never_a_formula() {
    let text = positions_csv(&hostile());
    assert!(text.lines().nth(1).expect("a row").starts_with("base,\"'=1+1"));
}

#[test]
fn numbers_read_back_exactly() {
    let verdict = broken();
    let text = positions_csv(&verdict);
    let cell = text.lines().nth(1).expect("a row").split(',').nth(5).expect("pearson");
    let first = verdict.scopes.values().next().expect("a scope").rows[0].pearson;
    assert_eq!(cell.parse::<f64>().ok().map(f64::to_bits), first.map(f64::to_bits));
}
