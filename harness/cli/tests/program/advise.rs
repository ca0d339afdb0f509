//! `fidelity advise` as a person meets it.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::Value;

use crate::support::{Desk, golden_checkpoint, json};

/// Heads of the golden, and how wide they are.
const HEAD: usize = 16;

/// Eight prompts of twelve tokens, none like another.
fn prompts(from: u32) -> String {
    let prompt = |index: u32| {
        let ids: Vec<u32> = (0..12).map(|at| (from + index * 37 + at * 53 + at * at * index * 7) % 300 + 3).collect();
        format!("{{\"id\":\"q{index}\",\"token_ids\":{ids:?}}}\n")
    };
    (0..8).map(prompt).collect()
}

/// The golden with one pair of channels that RoPE turns, of every head, `times` larger in q and smaller in k: the same function,
/// but for rounding, with outliers in q.
fn outlier_in_q(desk: &Desk, times: f32) -> PathBuf {
    let folder = desk.path("outlier");
    fs::create_dir_all(&folder).expect("creates");
    fs::copy(golden_checkpoint().join("config.json"), folder.join("config.json")).expect("copies");
    let bytes = fs::read(golden_checkpoint().join("model.safetensors")).expect("there");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let changed: BTreeMap<String, (Vec<usize>, Vec<u8>)> = file
        .tensors()
        .into_iter()
        .map(|(name, tensor)| {
            assert_eq!(tensor.dtype(), Dtype::F32, "{name}");
            let factor = match () {
                () if name.contains("q_proj") => times,
                () if name.contains("k_proj") => 1.0 / times,
                () => 1.0,
            };
            let row = tensor.shape()[1..].iter().product::<usize>() * 4;
            let values = tensor.data().chunks(row).enumerate().flat_map(|(index, row)| {
                let factor = if [3, 3 + HEAD / 2].contains(&(index % HEAD)) { factor } else { 1.0 };
                row.chunks(4).flat_map(move |value| {
                    let value = f32::from_le_bytes(value.try_into().expect("four bytes"));
                    (value * factor).to_le_bytes()
                })
            });
            (name, (tensor.shape().to_vec(), values.collect()))
        })
        .collect();
    let views = changed.iter().map(|(name, (shape, values))| {
        (name.clone(), TensorView::new(Dtype::F32, shape.clone(), values).expect("fits"))
    });
    safetensors::serialize_to_file(views, None, &folder.join("model.safetensors")).expect("writes");
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().expect("UTF-8")
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn outliers_in_q_are_named_and_promoting_it_is_proven_by_the_lines_themselves() {
    let desk = Desk::new();
    let (weights, mine, calibration) = (
        outlier_in_q(&desk, 60.0),
        desk.write("mine.jsonl", &prompts(0)),
        desk.write("calibration.jsonl", &prompts(101)),
    );
    let common = ["--weights", text(&weights), "--calibration", text(&calibration)];
    let asked = ["advise", "--recipe", "a8w8", "--target", "0.98", "--prompts", text(&mine), "--out", "a"];
    let answer = desk.fidelity(&[&asked[..], &common].concat());
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.last_line().starts_with("reached: a8w8 · "), "{answer:?}");
    assert!(answer.stdout.lines().rev().skip(1).all(|line| line.chars().count() <= 80), "{}", answer.stdout);
    let advice = json(&desk.path("a/advice.json"));
    assert_eq!(
        (advice["kinds"][0]["kind"].as_str(), advice["kinds"][0]["what"].as_str()),
        (Some("q"), Some("activations"))
    );
    assert_eq!(advice["conclusion"], "reached");
    let kinds = advice["kinds"].as_array().expect("kinds");
    let promoted: Vec<&str> = kinds
        .iter()
        .filter(|kind| !kind["advised"].as_array().expect("ranges").is_empty())
        .filter_map(|kind| kind["kind"].as_str())
        .collect();
    assert!(promoted.contains(&"q"), "{promoted:?}");
    // A query has fewer bits by its own quantiser than its neighbours have by theirs, in the row that it spoils.
    let local = |site: &str| number(&advice["sites"][site]["local_db"]);
    assert!(local("blocks.0.q") > 0.0 && advice["sites"]["blocks.0.q"]["bits"] == 8);

    // What is claimed of the held-out prompts is what `run` says of the file, on them alone.
    let held_out: String = prompts(0).lines().skip(1).step_by(2).map(|line| format!("{line}\n")).collect();
    assert_eq!(advice["prompts"]["held_out"], serde_json::json!(["q1", "q3", "q5", "q7"]));
    let unseen = desk.write("unseen.jsonl", &held_out);
    for (recipe, claimed) in [("a8w8", "recipe"), ("a/advised.alls", "advised")] {
        let run = [
            "run",
            "--recipe",
            recipe,
            "--prompts",
            text(&unseen),
            "--scopes",
            "base",
            "--new-tokens",
            "0",
            "--no-diagnosis",
            "--json",
        ];
        let run: Value = serde_json::from_str(&desk.fidelity(&[&run[..], &common].concat()).stdout).expect("a verdict");
        let found = &run["scopes"]["base"]["sites"]["logits"];
        let proven = &advice["proof"][claimed];
        assert_eq!(found["pearson"]["mean"], proven["similarity"], "{recipe}");
        assert_eq!((&found["pearson"]["interval"], &found["top1"]["rate"]), (&proven["interval"], &proven["top1"]));
        assert_eq!((&run["verdict"], &found["rows"]), (&proven["verdict"], &proven["rows"]));
        assert_eq!(run["arms"]["device"]["deviations"][0]["parameters"]["recipe_sha256"], proven["recipe_sha256"]);
    }
    assert!(number(&advice["proof"]["recipe"]["similarity"]) < 0.98);
    for left in ["reference", "recipe/arm", "advised/arm"] {
        assert!(!desk.path("a").join(left).exists(), "{left}");
    }
    let script = fs::read_to_string(desk.path("a/advised.alls")).expect("there");
    assert!(script.starts_with("# Every layer") && script.contains("q_proj") && script.contains("a16"), "{script}");
    assert!(fs::read_to_string(desk.path("a/advise.html")).expect("there").contains("Lines to add"));
}

#[test]
fn a_recipe_that_reaches_the_target_is_left_as_it_is() {
    let desk = Desk::new();
    let answer = desk.fidelity(&["advise", "--recipe", "a16w8", "--target", "0.99", "--out", "a"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.last_line().starts_with("already reached: a16w8 · the recipe as it is reaches 0.99"), "{answer:?}");
    let advice = json(&desk.path("a/advice.json"));
    assert!(advice["advised"].is_null() && advice["steps"].as_array().is_some_and(Vec::is_empty));
    assert!(advice["proof"]["advised"].is_null() && !desk.path("a/advised.alls").exists());
    assert!(advice["remedies"].as_array().is_some_and(|tried| !tried.is_empty()));
}

#[test]
fn where_nothing_reaches_the_target_the_best_is_shown_and_it_is_a_failure() {
    let desk = Desk::new();
    let answer = desk.fidelity(&["advise", "--recipe", "a8w8", "--target", "1", "--out", "a", "--quiet"]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.stdout.starts_with("not reached: a8w8 · the best that was found has "), "{answer:?}");
    let advice = json(&desk.path("a/advice.json"));
    let [recipe, advised] = ["recipe", "advised"].map(|name| number(&advice["proof"][name]["similarity"]));
    assert!(advised > recipe && advised < 1.0, "{recipe} {advised}");
    assert!(advice["kinds"].as_array().expect("kinds").iter().all(|kind| kind["advised"] != serde_json::json!([])));
}

#[test]
fn with_too_few_prompts_nothing_is_concluded() {
    let desk = Desk::new();
    let few: String = prompts(0).lines().take(3).map(|line| format!("{line}\n")).collect();
    let (few, calibration) = (desk.write("few.jsonl", &few), desk.write("calibration.jsonl", &prompts(101)));
    let weights = golden_checkpoint();
    let asked = ["advise", "--recipe", "a8w8", "--weights", text(&weights), "--prompts", text(&few), "--json"];
    let answer = desk.fidelity(&[&asked[..], &["--calibration", text(&calibration)]].concat());
    assert_eq!(answer.code, Some(3), "{answer:?}");
    let advice: Value = serde_json::from_str(&answer.stdout).expect("JSON");
    assert_eq!(advice["conclusion"], "inconclusive");
    assert_eq!(advice["reason"], "3 usable prompts, 4 needed to hold some out of the search");
    // Prompts that are calibrated on are not unseen.
    let asked = ["advise", "--recipe", "a8w8", "--prompts", "demo", "--calibration", "demo", "--quiet"];
    let answer = desk.fidelity(&asked);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.stdout.contains("0 usable prompts"), "{answer:?}");
}

#[test]
fn wrong_calls_are_refused_before_anything_is_computed() {
    let desk = Desk::new();
    for (arguments, said) in [
        (&["advise"][..], "--recipe"),
        (&["advise", "--recipe", "a8w9"], "built in: default"),
        (&["advise", "--recipe", "a8w8", "--target", "1.5"], "above 0 and at most 1"),
        (&["advise", "--recipe", "a8w8", "--prompts", "nowhere.txt"], "nowhere.txt"),
        (&["run", "--recipe", "none", "--first-position", "prefix"], "--recipe none"),
        (&["run", "--recipe", "a8w8", "--first-position", "suffix"], "residual16, every16, prefix"),
    ] {
        let answer = desk.fidelity(arguments);
        assert_eq!(answer.code, Some(2), "{arguments:?}: {answer:?}");
        assert!(answer.stderr.contains(said), "{arguments:?}: {answer:?}");
    }
    desk.write("a/reference/trace.json", "{}");
    let answer = desk.fidelity(&["advise", "--recipe", "a8w8", "--out", "a"]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
}

#[test]
fn position_0_apart_is_stamped_and_nearer_to_the_reference() {
    let desk = Desk::new();
    let run = |way: Option<&str>| {
        let mut asked =
            vec!["run", "--recipe", "a8w8", "--scopes", "base", "--new-tokens", "0", "--no-diagnosis", "--json"];
        asked.extend(way.iter().flat_map(|way| ["--first-position", way]));
        let verdict: Value = serde_json::from_str(&desk.fidelity(&asked).stdout).expect("a verdict");
        let deviations = verdict["arms"]["device"]["deviations"].clone();
        (number(&verdict["scopes"]["base"]["sites"]["logits"]["pearson"]["mean"]), deviations)
    };
    let (plain, _) = run(None);
    for way in ["residual16", "every16", "prefix"] {
        let (apart, deviations) = run(Some(way));
        assert!(apart > plain, "{way}: {apart} against {plain}");
        let stamped = serde_json::json!({"kind": "emulation", "name": "first_position", "parameters": {"way": way}});
        assert_eq!(deviations[1], stamped);
    }
}
