//! `fidelity forge` as a person meets it.

use std::{env, fs, path::Path, process::Command};

use crate::support::{Desk, golden_checkpoint, json};

#[test]
fn a_wide_and_rotated_demo_is_a_checkpoint_like_any_other() {
    let desk = Desk::new();
    let answer = desk.fidelity(&["forge", "--widen", "192", "--rotate", "7", "--out", "wide"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.last_line().starts_with("forged: wide of demo · --widen 192 --rotate 7 · "), "{answer:?}");
    assert!(answer.stdout.lines().rev().skip(1).all(|line| line.chars().count() <= 80), "{}", answer.stdout);
    let (config, record) = (json(&desk.path("wide/config.json")), json(&desk.path("wide/forge.json")));
    assert_eq!((&config["hidden_size"], &config["head_dim"]), (&192.into(), &16.into()));
    assert_eq!((&config["dtype"], &config["tie_word_embeddings"]), (&"float32".into(), &false.into()));
    assert_eq!(record["steps"], serde_json::json!(["--widen 192", "--rotate 7"]));
    // Embedding, two of each of four blocks, logits; the last norm holds no weights any more.
    assert_eq!(record["sites"].as_array().map(Vec::len), Some(10));
    let run = ["run", "--weights", "wide", "--recipe", "none", "--prompts", "demo", "--new-tokens", "0", "--quiet"];
    let answer = desk.fidelity(&run);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let again = desk.fidelity(&["forge", "--widen", "192", "--out", "wide"]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.stderr.contains("exists already"), "{again:?}");
}

#[test]
fn steps_are_done_in_the_order_they_are_given_in() {
    let desk = Desk::new();
    let steps = |arguments: &[&str], out: &str| {
        let answer = desk.fidelity(&[&["forge", "--json", "--out", out], arguments].concat());
        assert_eq!(answer.code, Some(0), "{answer:?}");
        serde_json::from_str::<serde_json::Value>(&answer.stdout).expect("JSON")["steps"].clone()
    };
    let one = steps(&["--skip", "3", "--untie", "--skip=0", "--tie", "--depth", "1"], "a");
    assert_eq!(one, serde_json::json!(["--skip 3", "--untie", "--skip 0", "--tie", "--depth 1"]));
    let other = steps(&["--depth", "4", "--skip", "0", "--untie"], "b");
    assert_eq!(other, serde_json::json!(["--depth 4", "--skip 0", "--untie"]));
}

#[test]
fn a_ladder_is_run_by_its_names() {
    let desk = Desk::new();
    let ladder =
        ["forge", "--heads", "mha", "--ladder", "hidden=128..192:64", "--rotate", "1", "--out", "rungs", "--quiet"];
    let answer = desk.fidelity(&ladder);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert_eq!(answer.stdout.lines().count(), 2, "{answer:?}");
    let record = json(&desk.path("rungs/demo-hidden-192/forge.json"));
    assert_eq!(record["steps"], serde_json::json!(["--heads mha", "--widen 192", "--rotate 1"]));
    let rows = fs::read_to_string(desk.path("rungs/checkpoints.toml")).expect("there");
    let row = "[demo-hidden-192]\nsource = \"folder:demo-hidden-192\"\nprompts = \"demo\"\ncalibration = \"demo-calibration\"\n";
    assert!(rows.contains(row), "{rows}");
    for (from, to) in [
        ("demo-hidden-128", "demo-hidden-128"),
        ("demo-hidden-192", "demo-hidden-192"),
        ("checkpoints.toml", "checkpoints.toml"),
    ] {
        fs::rename(desk.path("rungs").join(from), desk.path(to)).expect("moves to where it is run");
    }
    let run = ["run", "--checkpoint", "demo-hidden-192", "--recipe", "a16w8", "--new-tokens", "0", "--quiet"];
    let answer = desk.fidelity(&run);
    assert_eq!(answer.code, Some(0), "{answer:?}");
}

#[test]
fn what_does_not_fit_is_refused_and_leaves_nothing() {
    let desk = Desk::new();
    let wrong = [
        (vec!["--widen", "64"], "only more channels"),
        (vec!["--widen", "x"], "expected a whole number"),
        (vec!["--depth", "5"], "from 1 to 4"),
        (vec!["--heads", "gqa"], "expected `mha`"),
        (vec!["--tie"], "already"),
        (vec!["--ladder", "hidden=1..2"], "only more channels"),
        (vec!["--ladder", "width=1..2"], "expected AXIS"),
        (vec!["--widen", "999999999992"], "more than the"),
        (vec!["--vocab", "0"], "from 1 to"),
        (vec!["--vocab", "100"], "single characters"),
        (vec!["--outlier", "act"], "expected SITE=CHANNEL×FACTOR"),
        (vec!["--outlier", "resid_post=3x9"], "the nearest are attn_norm"),
        (vec!["--calm", "--calibration", "nothing"], "nothing"),
    ];
    for (steps, said) in wrong {
        let answer = desk.fidelity(&[&["forge", "--out", "out"], steps.as_slice()].concat());
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.stderr.contains(said), "{said}: {answer:?}");
        assert!(!desk.path("out").exists(), "{said}");
    }
}

#[test]
fn other_rows_and_even_channels_are_checkpoints_like_any_other() {
    let desk = Desk::new();
    let answer = desk.fidelity(&["forge", "--vocab", "700", "--outlier", "blocks.1.act=7x4096", "--out", "wild"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.stdout.lines().rev().skip(1).all(|line| line.chars().count() <= 80), "{}", answer.stdout);
    let (config, record) = (json(&desk.path("wild/config.json")), json(&desk.path("wild/forge.json")));
    assert_eq!((&config["vocab_size"], &record["copied"]), (&700.into(), &true.into()));
    assert_eq!(record["steps"], serde_json::json!(["--vocab 700", "--outlier blocks.1.act=7×4096"]));
    let calm = ["forge", "--weights", "wild", "--calibration", "demo-calibration", "--calm", "--out", "calm"];
    let answer = desk.fidelity(&calm);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.stdout.contains("act: the largest channel is "), "{answer:?}");
    assert!(answer.stdout.lines().rev().skip(1).all(|line| line.chars().count() <= 80), "{}", answer.stdout);
    assert_eq!(json(&desk.path("calm/forge.json"))["copied"], true);
    let pearson = |weights: &str| {
        let arm = ["--recipe", "a8w8", "--calibration", "demo-calibration", "--prompts", "demo", "--new-tokens", "0"];
        let run = ["run", "--weights", weights, "--no-diagnosis", "--scopes", "base", "--quiet", "--out"];
        desk.fidelity(&[&run[..], &[&format!("run-{weights}")], &arm[..]].concat());
        let verdict = json(&desk.path(&format!("run-{weights}")).join("verdict.json"));
        verdict["scopes"]["base"]["sites"]["logits"]["pearson"]["mean"].as_f64().expect("it was compared")
    };
    let (wild, calm) = (pearson("wild"), pearson("calm"));
    assert!(wild < 0.9 && calm > 0.95, "an outlier costs 8 bits what evening gives back: {wild}, {calm}");
    // What was generated is what the demo generates: a copy is no greedy choice.
    let ids = |arguments: &[&str], out: &str| {
        let record = ["reference", "--prompts", "demo", "--new-tokens", "12", "--quiet", "--out", out];
        let answer = desk.fidelity(&[&record[..], arguments].concat());
        assert_eq!(answer.code, Some(0), "{answer:?}");
        let trace = json(&desk.path(out).join("trace.json"));
        trace["prompts"].as_array().expect("prompts").iter().map(|it| it["generated"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(ids(&["--weights", "wild"], "of-wild"), ids(&[], "of-demo"));
    let without = desk.fidelity(&["forge", "--calibration", "demo-calibration", "--out", "x"]);
    assert!(without.code == Some(2) && without.stderr.contains("--calm"), "{without:?}");
}

/// Needs Python with transformers, as `references/tests/fresh_goldens.rs` does.
#[test]
fn transformers_computes_the_same_of_what_was_forged() {
    let python = env::var("FIDELITY_PYTHON").unwrap_or_else(|_| "python3".into());
    let imports = Command::new(&python).args(["-c", "import torch, transformers"]).output();
    if !imports.is_ok_and(|output| output.status.success()) {
        return;
    }
    let desk = Desk::new();
    let goldens = golden_checkpoint().parent().expect("inside").to_owned();
    let wide: &[&str] =
        &["--outlier", "v=3x0.3", "--outlier", "act=5*7", "--widen", "96", "--rotate", "5", "--head-dim", "2x"];
    let more: &[&str] = &["--vocab", "900", "--outlier", "final_norm=1x8"];
    let mut pairs = Vec::new();
    for name in ["llama-gqa", "llama-bias", "mistral-window", "qwen2", "qwen3", "smollm3"] {
        let (source, out) = (goldens.join(name), desk.path(name));
        forged(&desk, &source, wide, name);
        let rows = format!("{name}-rows");
        forged(&desk, &source, more, &rows);
        pairs.push(format!("{}|{}", source.display(), desk.path(&rows).display()));
        pairs.push(format!("{}|{}", source.display(), out.display()));
    }
    forged(&desk, &goldens.join("gpt2"), &["--untie"], "gpt2");
    pairs.push(format!("{}|{}", goldens.join("gpt2").display(), desk.path("gpt2").display()));
    let output = Command::new(&python).args(["-c", COMPARES]).args(&pairs).output().expect("Python starts");
    let (said, complained) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said}\n{complained}");
    assert_eq!(said.lines().count(), pairs.len(), "{said}");
}

fn forged(desk: &Desk, source: &Path, steps: &[&str], out: &str) {
    let source = source.display().to_string();
    let answer = desk.fidelity(&[&["forge", "--quiet", "--out", out, "--weights", &source], steps].concat());
    assert_eq!(answer.code, Some(0), "{answer:?}");
}

/// Logits of both in float32, which is how a forged folder says it is to be loaded.
const COMPARES: &str = "
import sys, torch, transformers
for pair in sys.argv[1:]:
    source, forged = pair.split('|')
    ids = torch.tensor([[1, 5, 9, 200, 31, 77, 12, 300, 4, 8]])
    with torch.no_grad():
        one, other = (transformers.AutoModelForCausalLM.from_pretrained(f)(ids).logits for f in (source, forged))
    assert other.dtype == torch.float32, other.dtype
    other = other[..., :one.shape[-1]]
    off = ((one - other).norm() / one.norm()).item()
    print(source, off)
    assert off < 2e-5, off
";
