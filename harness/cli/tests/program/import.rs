//! `fidelity import`: dumps of other tools.

use std::{fs, path::Path, process::Command};

use fidelity_trace::{Scope, Site, Trace};
use serde_json::Value;

use crate::support::{Answer, Desk, json};

/// An .npy file of float32.
fn npy(shape: [usize; 2], values: &[f32]) -> Vec<u8> {
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}\n", shape[0], shape[1]);
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((header.len() as u16).to_le_bytes());
    bytes.extend(header.bytes());
    bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    bytes
}

/// Writes the prompt's last row and the steps of every prompt of a trace as dumps of [steps, vocabulary].
fn dump_logits(desk: &Desk, trace: &str) -> Vec<String> {
    let trace = Trace::open(&desk.path(trace)).expect("a trace");
    let dumps = (0..trace.manifest().prompts.len()).map(|index| {
        let prompt = trace.prompt(index).expect("readable");
        let logits = |scope| &prompt.scopes[&scope].sites[&Site::Logits];
        let (prefill, tbt) = (logits(Scope::Prefill), logits(Scope::Tbt));
        let values = [prefill.row(prefill.rows() - 1), &tbt.values].concat();
        let name = format!("steps-{index}.npy");
        fs::write(desk.path(&name), npy([tbt.rows() + 1, tbt.row_len()], &values)).expect("writes");
        name
    });
    dumps.collect()
}

fn import(desk: &Desk, dumps: &[String], more: &[&str]) -> Answer {
    let dumps: Vec<&str> = dumps.iter().map(String::as_str).collect();
    desk.fidelity(&[&["import"][..], &dumps, more].concat())
}

#[test]
fn a_dump_of_logits_comes_back_bit_for_bit_and_is_faithful() {
    let desk = Desk::new();
    let run = desk.fidelity(&["run", "--recipe", "none", "--out", "run", "--quiet"]);
    assert_eq!(run.code, Some(0), "{run:?}");
    let dumps = dump_logits(&desk, "run/arm");
    let prompts = ["--prompts", "run/reference", "--against", "run/reference", "--checkpoint", "demo"];
    let imported = import(&desk, &dumps, &[&["--map", "logits", "--out", "in"][..], &prompts].concat());
    assert_eq!(imported.code, Some(0), "{imported:?}");
    assert!(
        imported.last_line().starts_with("imported: 16 prompts · prefill 16 rows, tbt 496 rows · trace in"),
        "{imported:?}"
    );
    assert!(imported.stdout.contains("correlation with the reference 1.000000"), "{}", imported.stdout);
    let (arm, back) =
        (Trace::open(&desk.path("run/arm")).expect("a trace"), Trace::open(&desk.path("in")).expect("a trace"));
    for index in 0..16 {
        let (arm, back) = (arm.prompt(index).expect("readable"), back.prompt(index).expect("readable"));
        assert_eq!(arm.scopes[&Scope::Tbt].sites[&Site::Logits], back.scopes[&Scope::Tbt].sites[&Site::Logits]);
        assert_eq!(arm.scopes[&Scope::Tbt].token_ids, back.scopes[&Scope::Tbt].token_ids);
    }
    let compared = desk.fidelity(&["compare", "run/reference", "in", "--quiet"]);
    assert_eq!(compared.code, Some(0), "{compared:?}");
    let replayed = desk.fidelity(&["run", "--device", "replay=in", "--quiet"]);
    assert!(
        replayed.stdout.starts_with("faithful: replay of import logits dump · prefill: Pearson 1.0000"),
        "{replayed:?}"
    );
}

#[test]
fn an_arm_that_went_its_own_way_is_compared_on_what_it_was_fed() {
    let desk = Desk::new();
    let run = desk.fidelity(&["run", "--fault", "gqa_tile", "--no-diagnosis", "--out", "run", "--quiet"]);
    assert_eq!(run.code, Some(1), "{run:?}");
    let dumps = dump_logits(&desk, "run/arm");
    let imported = import(&desk, &dumps, &["--map", "logits", "--prompts", "run/reference", "--out", "in", "--quiet"]);
    assert_eq!(imported.code, Some(0), "{imported:?}");
    let replayed = desk.fidelity(&["run", "--device", "replay=in", "--no-diagnosis", "--json"]);
    let verdict: Value = serde_json::from_str(&replayed.stdout).expect("JSON");
    let coverage = &verdict["scopes"]["tbt"]["coverage"];
    assert_eq!((&coverage["rows_other_token"], &coverage["rows_compared"]), (&0.into(), &496.into()));
    assert!(verdict["notes"].to_string().contains("the reference was fed the arm's"), "{}", verdict["notes"]);
}

#[test]
fn prompts_come_from_text_ids_or_a_trace() {
    let desk = Desk::new();
    let values: Vec<f32> = (0..2 * 512).map(|value| (value % 97) as f32).collect();
    fs::write(desk.path("s.npy"), npy([2, 512], &values)).expect("writes");
    let dump = ["s.npy".to_owned()];
    let with =
        |out: &str, more: &[&str]| import(&desk, &dump, &[&["--map", "logits", "--out", out][..], more].concat());
    let ids = |out: &str| json(&desk.path(out).join("trace.json"))["prompts"][0]["token_ids"].clone();
    assert_eq!(with("a", &["--prompt", "Once", "--checkpoint", "demo"]).code, Some(0));
    assert_eq!(ids("a"), serde_json::json!([0, 308, 364]));
    desk.write("p.jsonl", "{\"token_ids\":[5,6]}\n");
    assert_eq!(with("b", &["--prompts", "p.jsonl"]).code, Some(0));
    assert_eq!(ids("b"), serde_json::json!([5, 6]));
    assert_eq!(with("c", &["--prompts", "a"]).code, Some(0));
    assert_eq!(ids("c"), ids("a"));
    assert_eq!(json(&desk.path("a/trace.json"))["checkpoint"]["source"], "embedded:demo");
    assert_eq!(
        json(&desk.path("a/trace.json"))["checkpoint"]["weights_sha256"],
        Value::Null,
        "nobody hashed what was run"
    );
    desk.write("m.toml", "[prompt]\ntext = 'Once'\n[scopes.prefill]\npositions = 'last'\n[scopes.prefill.sites.logits]\naxes = 'row value'\ntake = 'last'\n");
    let told = import(&desk, &dump, &["--map", "m.toml", "--out", "d", "--checkpoint", "demo"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(ids("d"), ids("a"));

    for (more, says) in [
        (&["--prompt", "Once"][..], "the prompts are text, which needs a tokenizer"),
        (&[], "it does not say which tokens were fed"),
        (&["--prompts", "p.jsonl", "--against", "a"], "holds no prompt with the tokens of `p0000`"),
        (&["--prompts", "p.jsonl", "--checkpoint", "dmo"], "did you mean `demo`?"),
        (&["--prompts", "p.jsonl", "--map", "logit"], "cannot be used multiple times"),
    ] {
        let refused = with("x", more);
        assert_eq!(refused.code, Some(2), "{more:?}: {refused:?}");
        assert!(refused.stderr.contains(says), "{more:?}: {}", refused.stderr);
        assert!(!desk.path("x").exists());
    }
    let unknown = import(&desk, &dump, &["--map", "logit", "--out", "x"]);
    assert!(
        unknown.stderr.contains("nothing built in of that name; built in: diagnostics, logits"),
        "{}",
        unknown.stderr
    );
    desk.write("wide.jsonl", "{\"token_ids\":[5,600]}\n");
    let wide = with("x", &["--prompts", "wide.jsonl", "--checkpoint", "demo"]);
    assert!(wide.stderr.contains("token id 600 at position 1 is outside the vocabulary of 512"), "{}", wide.stderr);
}

/// Code blocks of a Markdown text with their language, in order.
fn blocks(text: &str) -> Vec<(&str, &str)> {
    let parts = text.split("\n```").skip(1).step_by(2);
    parts.filter_map(|part| part.split_once('\n')).collect()
}

/// A word of a command line, or the files it stands for.
fn expanded(desk: &Desk, word: &str) -> Vec<String> {
    let Some((before, after)) = word.split_once('*') else { return vec![word.to_owned()] };
    let names =
        fs::read_dir(desk.path("")).expect("listed").flatten().map(|it| it.file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = names.filter(|name| name.starts_with(before) && name.ends_with(after)).collect();
    names.sort();
    names
}

#[test]
fn the_documented_examples_run() {
    let needs = Command::new("python3").args(["-c", "import numpy, safetensors.numpy"]).output();
    if !needs.is_ok_and(|output| output.status.success()) {
        eprintln!("did not run: python3 with numpy and safetensors is not installed");
        return;
    }
    let desk = Desk::new();
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/IMPORT.md")).expect("there");
    let (mut dumps, mut faithful) = (0, 0);
    for (language, block) in blocks(&text) {
        match language {
            "python" => {
                let script = desk.write("dump.py", block);
                let output = Command::new("python3").arg(script).current_dir(desk.path("")).output().expect("starts");
                assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
                dumps += 1;
            }
            "toml" => {
                let name = block.strip_prefix("# ").and_then(|rest| rest.lines().next()).expect("begins with its name");
                desk.write(name, block);
            }
            "console" => {
                for line in block.lines().filter_map(|line| line.strip_prefix("fidelity ")) {
                    let arguments: Vec<_> = line.split_whitespace().flat_map(|word| expanded(&desk, word)).collect();
                    let answer = desk.fidelity(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
                    assert_eq!(answer.code, Some(0), "{line}: {answer:?}");
                    faithful += usize::from(answer.last_line().starts_with("faithful: "));
                }
            }
            _ => {}
        }
    }
    assert_eq!(dumps, 3, "logits, diagnostics, emulator");
    assert_eq!(faithful, 5, "each is compared, and the run and the replay before and after");
}
