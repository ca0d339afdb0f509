//! `diagnose`, and the diagnosis of `run`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json as value};

use crate::support::{Answer, Desk, PROMPTS, golden_checkpoint, json};

/// A desk with the trace of the demo under `a16w8`, with faults, in `arm`.
fn recorded(more: &[&str]) -> Desk {
    let desk = Desk::new();
    let made = desk.fidelity(&[&["record", "--recipe", "a16w8", "--out", "arm"][..], more].concat());
    assert_eq!(made.code, Some(0), "{made:?}");
    desk
}

/// Changes the manifest of `arm`.
fn edit(desk: &Desk, change: impl FnOnce(&mut Value)) {
    let path = desk.path("arm/trace.json");
    let mut manifest = json(&path);
    change(&mut manifest);
    fs::write(path, manifest.to_string()).expect("writes");
}

fn verdict(answer: &Answer) -> Value {
    serde_json::from_str(&answer.stdout).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

#[test]
fn a_fault_is_named_whatever_the_trace_says_was_injected() {
    let desk = recorded(&["--fault", "softmax_across_heads"]);
    let deviations = json(&desk.path("arm/trace.json"))["deviations"].clone();
    let mut lie = deviations.clone();
    lie[1]["name"] = "gqa_tile".into();
    for said in [deviations, lie, value!([])] {
        edit(&desk, |manifest| manifest["deviations"] = said);
        let answer = desk.fidelity(&["diagnose", "arm", "--json"]);
        assert_eq!(answer.code, Some(1), "{answer:?}");
        let diagnosis = &verdict(&answer)["diagnosis"];
        assert_eq!((&diagnosis["name"], &diagnosis["family"]), (&"softmax_across_heads".into(), &"AT".into()));
        assert_eq!((&diagnosis["block"], &diagnosis["parameter"]), (&Value::Null, &Value::Null));
        let score = |candidate: &Value| candidate["score"].as_f64().expect("a number");
        assert!(score(diagnosis) > 0.999 && score(&diagnosis["clean"]) < 0.9, "{diagnosis:#}");
        let margin = &diagnosis["margin"];
        let (ahead, error) = (margin["difference"].as_f64(), margin["standard_error"].as_f64());
        assert!(ahead.zip(error).is_some_and(|(ahead, error)| ahead > 3.0 * error), "{margin}");
        assert_eq!(margin["prompts"], 16);
    }
    let said = desk.fidelity(&["diagnose", "arm", "--out", "out"]);
    assert!(said.last_line().starts_with("diagnosed: softmax_across_heads · "), "{}", said.last_line());
    let confirm = json(&desk.path("out/verdict.json"))["diagnosis"]["confirm"].clone();
    let confirm: Vec<&str> = confirm.as_str().expect("a command").split(' ').skip(1).collect();
    assert_eq!(desk.fidelity(&[&confirm[..], &["--no-diagnosis"]].concat()).code, Some(1), "{confirm:?}");
}

#[test]
fn nothing_is_named_where_nothing_is_wrong() {
    let desk = recorded(&[]);
    for recipe in [&[][..], &["--recipe", "a16w8"]] {
        let answer = desk.fidelity(&[&["diagnose", "arm", "--quiet"][..], recipe].concat());
        assert_eq!(answer.code, Some(0), "{answer:?}");
        assert!(answer.stdout.starts_with("diagnosed: clean · ") && answer.stdout.lines().count() == 1, "{answer:?}");
    }
}

#[test]
fn run_names_the_fault_in_its_block_in_any_arm() {
    let desk = Desk::new();
    let run = desk.fidelity(&["run", "--fault", "gqa_tile@1", "--out", "one"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.last_line().contains(" · diagnosed gqa_tile@1 · "), "{}", run.last_line());
    assert!(run.stdout.contains("WHY  gqa_tile in block 1 (attention's wiring): "), "{}", run.stdout);
    for recipe in [&[][..], &["--recipe", "a16w8"]] {
        let replay = desk.fidelity(&[&["run", "--device", "replay=one/arm", "--json"][..], recipe].concat());
        let diagnosis = &verdict(&replay)["diagnosis"];
        assert_eq!((&diagnosis["name"], &diagnosis["block"]), (&"gqa_tile".into(), &1.into()), "{recipe:?}");
    }
}

#[test]
fn a_recipe_that_is_wrong_by_itself_is_blamed_and_no_fault() {
    let desk = Desk::new();
    let run = desk.fidelity(&["run", "--recipe", "a8w4", "--json"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let verdict = verdict(&run);
    assert_eq!(verdict["diagnosis"]["name"], "clean", "{:#}", verdict["diagnosis"]);
    let sentence = verdict["diagnosis"]["sentence"].as_str().expect("text");
    assert!(sentence.starts_with("the recipe a8w4 alone predicts this"), "{sentence}");
}

#[test]
fn a_verdict_that_is_not_faithful_has_a_diagnosis_unless_asked_not_to() {
    let desk = Desk::new();
    let broken = ["run", "--fault", "gqa_tile", "--scopes", "base", "--recipe", "none"];
    let with = desk.fidelity(&[&broken[..], &["--out", "with"]].concat());
    assert_eq!(with.code, Some(1), "{with:?}");
    assert!(with.last_line().contains(" · diagnosed "), "{}", with.last_line());
    assert!(with.stdout.contains("\nWHY  "), "{}", with.stdout);
    assert!(with.stdout.lines().rev().skip(1).all(|line| line.chars().count() <= 80), "tables fit 80 columns");
    schema(&json(&desk.path("with/verdict.json"))["diagnosis"]);
    let page = fs::read_to_string(desk.path("with/report.html")).expect("there");
    assert!(page.contains("<h2 id=\"why\">Why: "));
    fs::remove_file(desk.path("with/report.html")).expect("there");
    let again = desk.fidelity(&["report", "with"]);
    assert!(again.stdout.contains("\nWHY  ") && again.last_line().contains(" · diagnosed "), "{again:?}");
    assert!(fs::read_to_string(desk.path("with/report.html")).expect("there").contains("<h2 id=\"why\">Why: "));

    let without = desk.fidelity(&[&broken[..], &["--no-diagnosis", "--json"]].concat());
    assert!(verdict(&without)["diagnosis"].is_null());
    let faithful = desk.fidelity(&["run", "--scopes", "base", "--json"]);
    assert!(verdict(&faithful)["diagnosis"].is_null());
}

/// What others may rely on.
fn schema(diagnosis: &Value) {
    let fields: Vec<&str> = diagnosis.as_object().expect("an object").keys().map(String::as_str).collect();
    for field in [
        "name",
        "family",
        "block",
        "parameter",
        "sentence",
        "score",
        "residual",
        "margin",
        "runner_up",
        "clean",
        "ranked",
        "equivalent",
        "first_bad_site",
        "scopes",
        "evidence",
        "next",
        "remedy",
        "confirm",
        "predicted_by",
        "passes",
    ] {
        assert!(fields.contains(&field), "{field} of {fields:?}");
    }
    assert!(diagnosis["name"].is_string() && diagnosis["sentence"].is_string() && diagnosis["passes"].is_number());
    for field in ["fault", "name", "score", "residual"] {
        assert!(!diagnosis["clean"][field].is_null(), "{field}");
    }
    for list in ["ranked", "equivalent", "evidence", "next"] {
        assert!(diagnosis[list].is_array(), "{list}");
    }
}

#[test]
fn diagnose_judges_as_run_does() {
    let desk = recorded(&["--fault", "gqa_tile", "--scopes", "base"]);
    let run = desk.fidelity(&["run", "--device", "replay=arm", "--json"]);
    let diagnosed = desk.fidelity(&["diagnose", "arm", "--json", "--out", "out"]);
    assert_eq!((run.code, diagnosed.code), (Some(1), Some(1)), "{diagnosed:?}");
    assert_eq!(verdict(&run), verdict(&diagnosed));
    assert_eq!(verdict(&diagnosed), json(&desk.path("out/verdict.json")));
    let line = desk.fidelity(&["diagnose", "arm", "--quiet", "--out", "line"]);
    assert!(line.stdout.starts_with("diagnosed: ") && line.stdout.lines().count() == 1, "{line:?}");
    assert!(line.stdout.ends_with(" · report line/report.html\n"), "{line:?}");
}

#[test]
fn what_cannot_be_diagnosed_is_refused() {
    let desk = recorded(&["--scopes", "base"]);
    let refused = |arguments: &[&str], says: &str| {
        let answer = desk.fidelity(&[&["diagnose"], arguments].concat());
        assert_eq!(answer.code, Some(2), "{arguments:?}: {answer:?}");
        assert!(answer.stderr.contains(says), "{arguments:?}: {}", answer.stderr);
        assert_eq!(answer.stdout, "");
    };
    let golden = golden_checkpoint();
    refused(&["nowhere"], "cannot read nowhere/trace.json");
    refused(&[], "<TRACE>");
    refused(&["arm", "--calibration", "demo"], "--recipe");
    refused(&["arm", "--recipe", "a4w4"], "--recipe: there is no file `a4w4`");
    refused(&["arm", "--checkpoint", "dem"], "(did you mean `demo`?)");
    refused(&["arm", "--weights", golden.to_str().expect("UTF-8")], "is outside the vocabulary of 320");
    refused(&["arm", "--scopes", "tbt"], "--scopes asks for tbt, but it holds base");
    edit(&desk, |manifest| manifest["checkpoint"] = value!({"name": "\u{1b}other", "source": "hub:a/b"}));
    refused(&["arm"], "it is of checkpoint `\\u{1b}other` (hub:a/b), which is not in checkpoints.toml; give --weights");
    edit(&desk, |manifest| manifest["checkpoint"] = value!({}));
    refused(&["arm"], "it does not say which checkpoint it is of; give --checkpoint or --weights");
    assert!(!desk.path("runs").exists());
    let given = desk.fidelity(&["diagnose", "arm", "--checkpoint", "demo", "--quiet"]);
    assert_eq!(given.code, Some(0), "{given:?}");
}

#[test]
fn an_encoder_has_no_logits_to_diagnose() {
    let desk = Desk::new();
    desk.write("p.jsonl", PROMPTS);
    let weights = golden_checkpoint().with_file_name("bert");
    let weights = ["--weights", weights.to_str().expect("UTF-8")];
    let arm = ["record", "--prompts", "p.jsonl", "--recipe", "none", "--out", "arm"];
    let made = desk.fidelity(&[&arm[..], &weights].concat());
    assert_eq!(made.code, Some(0), "{made:?}");
    let refused = desk.fidelity(&[&["diagnose", "arm"][..], &weights].concat());
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("arm: it holds no logits, by which faults are told apart"), "{}", refused.stderr);
    assert!(!desk.path("runs").exists());
}

fn faults(desk: &Desk) -> Vec<Value> {
    let answer = desk.fidelity(&["list", "faults", "--json"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let listed: Value = serde_json::from_str(&answer.stdout).expect("nothing but JSON");
    listed["faults"].as_array().expect("a list").clone()
}

#[test]
fn list_shows_every_fault_and_what_it_can_be_told() {
    let desk = Desk::new();
    let text = desk.fidelity(&["list", "faults"]);
    assert_eq!(text.code, Some(0), "{text:?}");
    assert!(text.stdout.lines().all(|line| line.chars().count() <= 80), "{}", text.stdout);
    let faults = faults(&desk);
    for fault in &faults {
        let (name, family) = (fault["name"].as_str().expect("text"), fault["family"].as_str().expect("text"));
        let line = text.stdout.lines().find(|line| line.starts_with(&format!("{name} ")));
        assert!(line.is_some_and(|line| line.contains(&format!(" {family} "))), "{name}");
        assert!(fault["sentence"].as_str().is_some_and(|sentence| !sentence.is_empty()), "{name}");
    }
    let named = |name: &str| faults.iter().find(|fault| fault["name"] == name).expect(name);
    assert_eq!(named("gqa_tile")["in"], "blocks");
    assert_eq!(named("layer_skipped")["in"], "one block");
    assert_eq!((&named("head_tied")["in"], &named("head_tied")["values"]), (&"network".into(), &Value::Null));
    assert_eq!(named("qk_norm_missing")["values"], value!({"kind": "words", "words": ["both", "q", "k"]}));
    let window = value!({"kind": "mixed", "words": ["exchanged", "all", "later", "earlier"], "named": ["from", "before"],
                         "meaning": null, "whole": true});
    assert_eq!(named("window_wrong_layers")["values"], window);
    let theta = &named("rope_theta")["values"];
    assert_eq!((&theta["kind"], &theta["least"], &theta["whole"]), (&"number".into(), &1.5.into(), &false.into()));
    // What is shown is what is taken: a fault that is not listed is unknown, a listed one is not.
    let unknown = desk.fidelity(&["run", "--fault", "no_such_fault"]).stderr;
    assert!(faults.iter().all(|fault| unknown.contains(fault["name"].as_str().expect("text"))), "{unknown}");
}

#[test]
fn list_is_json_too() {
    let desk = Desk::new();
    let read = |arguments: &[&str]| verdict(&desk.fidelity(arguments));
    let all = read(&["list", "--json"]);
    let rows = all["checkpoints"].as_array().expect("a list");
    assert!(rows.iter().any(|row| row["name"] == "demo" && row["source"] == "embedded:demo"), "{all}");
    assert!(all["recipes"].as_array().is_some_and(|recipes| recipes.contains(&"a16w8".into())));
    let row = read(&["list", "nanolm-25m", "--json"]);
    assert!(row["known"].as_array().is_some_and(|known| known.iter().any(|it| it["pearson"] == 0.52)), "{row}");
}

/// docs/DIAGNOSE.md has a line for every fault, in the order of `list faults`, with its family, place and values.
#[test]
fn the_document_has_every_fault() {
    let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/DIAGNOSE.md");
    let document = fs::read_to_string(path).expect("there");
    let table = document.split("| fault |").nth(1).expect("a table of faults");
    let rows: Vec<Vec<&str>> = table
        .lines()
        .skip(2)
        .take_while(|line| line.starts_with('|'))
        .map(|line| line.trim_matches('|').split('|').map(str::trim).collect())
        .collect();
    let faults = faults(&Desk::new());
    let names = |cell: &str| cell.trim_matches('`').to_owned();
    let expected: Vec<_> = faults.iter().map(|fault| fault["name"].as_str().expect("text").to_owned()).collect();
    assert_eq!(rows.iter().map(|row| names(row[0])).collect::<Vec<_>>(), expected);
    for (row, fault) in rows.iter().zip(&faults) {
        let [name, family, place, values, meaning] = row[..] else { panic!("{row:?}") };
        assert_eq!((family, place), (fault["family"].as_str().expect("text"), fault["in"].as_str().expect("text")));
        assert!(!meaning.is_empty(), "{name}");
        match &fault["values"] {
            Value::Null => assert_eq!(values, "–", "{name}"),
            of => {
                let words = of["words"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let bounds = [&of["least"], &of["most"]].into_iter().filter_map(Value::as_f64);
                let bounds = bounds.map(|it| if it >= 1e6 { format!("{it:e}") } else { it.to_string() });
                let named = of["named"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let words = words.map(|word| format!("`{word}`")).chain(named.map(|word| format!("`{word}:N`")));
                let meaning = of["meaning"].as_str().map(str::to_owned);
                let all: Vec<String> = words.chain(bounds).chain(meaning).collect();
                assert!(values != "–" && all.iter().all(|part| values.contains(part)), "{name}: {values} of {all:?}");
            }
        }
    }
}

#[test]
fn an_arm_is_run_again_while_its_trace_leaves_doubt() {
    let fault = "score_scale=0.8";
    let desk = recorded(&["--fault", fault, "--prompt", "Lily saw a big red ball."]);
    let diagnose = |more: &[&str]| {
        let answer = desk.fidelity(&[&["diagnose", "arm", "--recipe", "a16w8", "--json"][..], more].concat());
        verdict(&answer)["diagnosis"].clone()
    };
    let steps = |diagnosis: &Value| {
        let probes = diagnosis["probes"].as_array().expect("the arm was run again").clone();
        probes.iter().map(|probe| probe["device_steps"].as_u64().expect("a number")).sum::<u64>()
    };
    let alone = diagnose(&[]);
    assert_eq!(alone["name"], "unexplained", "{alone:#}");
    assert!(alone.get("probes").is_none());

    let again = diagnose(&["--device", "emulator", "--fault", fault]);
    assert_eq!(again["name"], "score_scale", "{again:#}");
    let probes = again["probes"].as_array().expect("probes");
    assert!(
        ["repeat", "one_token", "poke", "prefix", "new_prompt"]
            .iter()
            .all(|kind| probes.iter().any(|probe| probe["kind"] == *kind)),
        "{probes:#?}"
    );
    assert!(steps(&again) <= 256);
    assert!(again["margin"]["prompts"].as_u64() > Some(1));

    // Another arm than the trace's does not repeat its rows, and is asked no more.
    let other = diagnose(&["--device", "emulator", "--fault", "gqa_tile"]);
    assert_eq!((&other["name"], other["probes"].as_array().map(Vec::len)), (&"unexplained".into(), Some(1)));
    let spent = diagnose(&["--device", "emulator", "--fault", fault, "--budget", "18"]);
    assert!(steps(&spent) <= 18, "{spent:#}");
}

#[test]
fn a_stored_trace_cannot_be_run_again() {
    let desk = recorded(&["--prompt", "Lily saw a ball."]);
    for (more, said) in [
        (&["--device", "replay=arm"][..], "a stored trace cannot be run again"),
        (&["--budget", "3"], "--device <ARM>"),
        (&["--device", "hailo"], "--hef"),
    ] {
        let answer = desk.fidelity(&[&["diagnose", "arm"][..], more].concat());
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.stderr.contains(said), "{answer:?}");
    }
}
