//! `attribute`, as a person uses it.

use serde_json::Value;

use crate::support::Desk;

#[test]
fn the_published_table_is_no_evidence() {
    let answer = Desk::new().fidelity(&["attribute", "--published"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let tables = answer.stdout.lines().rev().skip(1).filter(|line| !line.contains("fidelity "));
    assert!(tables.clone().all(|line| line.chars().count() <= 80), "{}", answer.stdout);
    assert!(
        answer.last_line().contains("not evidence") && answer.last_line().contains("cannot be told apart"),
        "{answer:?}"
    );
    assert!(
        answer.stdout.contains("0.071") && answer.stdout.contains("fidelity forge --checkpoint tinyllama-15m"),
        "{answer:?}"
    );
}

#[test]
fn json_holds_the_tests_and_nothing_else_is_printed() {
    let answer = Desk::new().fidelity(&["attribute", "--published", "--json"]);
    let json: Value = serde_json::from_str(&answer.stdout).expect("JSON alone");
    assert_eq!((&json["format"], &json["version"]), (&"fidelity-attribution".into(), &1.into()));
    let group = json["groups"].as_array().expect("groups").iter().find(|group| group["measured"] == "greedy text");
    let tested = group.expect("published")["tested"].as_array().expect("tests").clone();
    let hidden = tested.iter().find(|test| test["covariate"] == "hidden").expect("tested");
    assert_eq!((&hidden["separation"]["low"], &hidden["separation"]["high"]), (&288.0.into(), &576.0.into()));
    assert!(hidden["p"].as_f64().is_some_and(|p| (p - 1.0 / 14.0).abs() < 1e-12));
}

#[test]
fn what_separates_is_what_the_next_checkpoint_is_forged_by() {
    let desk = Desk::new();
    let head = "checkpoint,device,recipe,scope,outcome,layers,vocabulary\n";
    let line = |name: &str, outcome: &str, layers: u32, rows: u32| {
        format!("{name},emulator,a8w8,base,{outcome},{layers},{rows}\n")
    };
    let passes = line("a", "pass", 4, 512) + &line("b", "pass", 6, 32_000);
    let fails = line("c", "fail", 12, 49_152) + &line("d", "fail", 30, 151_936);
    desk.write("results.csv", &format!("{head}{passes}{fails}"));
    let answer = desk.fidelity(&["attribute", "results.csv", "--json"]);
    let json: Value = serde_json::from_str(&answer.stdout).expect("JSON alone");
    let next = json["groups"][0]["next"].as_array().expect("experiments");
    let of = |flags: &str| {
        let found = next.iter().find(|it| it["command"].as_str().is_some_and(|command| command.contains(flags)));
        found.unwrap_or_else(|| panic!("{flags}: {next:?}"))["predictions"].clone()
    };
    // More rows keep the function; fewer blocks do not, so that what else is wrong may be gone.
    let rows = serde_json::json!([["layers", "passes"], ["vocabulary", "fails"], ["something else", "passes"]]);
    assert_eq!(of("--checkpoint a --vocab 49152 "), rows);
    let blocks = serde_json::json!([["layers", "passes"], ["vocabulary", "fails"], ["something else", "open"]]);
    assert_eq!(of("--checkpoint c --depth 6 "), blocks);
}

#[test]
fn hostile_tables_are_refused_and_escaped() {
    let desk = Desk::new();
    let refused = |name: &str, text: &str, said: &str| {
        let path = desk.write(name, text);
        let answer = desk.fidelity(&["attribute", path.to_str().expect("UTF-8")]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.stderr.contains(said) && !answer.stderr.contains('\u{1b}'), "{}", answer.stderr);
    };
    let head = "checkpoint,device,recipe,scope,outcome,hidden\n";
    refused("nan.csv", &format!("{head}a,e,r,base,pass,NaN\n"), "column `hidden` is `NaN`");
    refused("twice.csv", &format!("{head}a,e,r,base,pass,1\na,e,r,base,fail,1\n"), "stands in line 2 as well");
    refused("column.csv", "checkpoint,\u{1b}[2J\n", "\\u{1b}[2J");
    refused("nothing.csv", head, "nothing to explain");
    refused("text.csv", "\u{0}\u{1}", "column");
    let path =
        desk.write("steering.csv", &format!("{head}\"a\u{1b}[31m\u{202e}\",e,r,base,pass,1\nb,e,r,base,fail,2\n"));
    let answer = desk.fidelity(&["attribute", path.to_str().expect("UTF-8")]);
    assert!(answer.code == Some(0) && !answer.stdout.contains(['\u{1b}', '\u{202e}']), "{answer:?}");
    assert_eq!(desk.fidelity(&["attribute", "absent.csv"]).code, Some(2));
    assert_eq!(desk.fidelity(&["attribute"]).code, Some(2));
}
