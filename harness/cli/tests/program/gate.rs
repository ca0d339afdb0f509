//! `bless`, `gate`, `run --gate`.

use std::fs;

use serde_json::Value;

use crate::support::{Desk, json};

/// Where the demo's baseline under the default recipe belongs.
const BASELINE: &str = "reports/baselines/demo/emulator/a16w8.json";

/// A run of the demo, quick, into a folder of its name.
fn run(desk: &Desk, out: &str, more: &[&str]) {
    let fixed = ["run", "--scopes", "base,tbt", "--no-diagnosis", "--discard-traces", "--quiet", "--out", out];
    let answer = desk.fidelity(&[&fixed[..], more].concat());
    assert!(matches!(answer.code, Some(0 | 1)), "{answer:?}");
}

/// A run, blessed.
fn blessed() -> Desk {
    let desk = Desk::new();
    run(&desk, "good", &[]);
    let answer = desk.fidelity(&["bless", "good"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.last_line().ends_with(&format!("new baseline {BASELINE}")), "{answer:?}");
    desk
}

#[test]
fn the_same_run_passes_because_nothing_differs() {
    let desk = blessed();
    let answer = desk.fidelity(&["gate", "good"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.last_line().ends_with("the same number on every prompt in all 8 comparisons"), "{answer:?}");
    assert!(answer.stdout.lines().rev().skip(1).all(|line| line.chars().count() <= 80), "{}", answer.stdout);
    let gate = json(&desk.path("good/gate.json"));
    assert_eq!((&gate["format"], &gate["conclusion"]), (&"fidelity-gate".into(), &"pass".into()));
    let pearson = &gate["scopes"]["tbt"]["pearson"];
    assert_eq!(
        (&pearson["difference"], &pearson["movement"], &pearson["prompts"]),
        (&0.0.into(), &"same".into(), &16.into())
    );
    // Sixteen prompts that all lie inside the margin: 2⁻¹⁶, and no power is claimed where nothing spreads.
    assert_eq!((pearson["p_not_worse"].as_f64(), &pearson["power"]), (Some(0.5_f64.powi(16)), &Value::Null));
    let page = fs::read_to_string(desk.path("good/gate.md")).expect("there");
    assert!(page.starts_with("### Gate pass: demo") && page.contains("| tbt | NMSE |"), "{page}");
    let text = desk.fidelity(&["gate", "good/verdict.json", "--baseline", BASELINE, "--json"]).stdout;
    assert_eq!(serde_json::from_str::<Value>(&text).expect("nothing but gate.json"), gate);
}

#[test]
fn a_baseline_is_small_whole_and_written_by_bless_alone() {
    let desk = blessed();
    let before = fs::read(desk.path(BASELINE)).expect("there");
    assert!(before.len() < 20_000, "{}", before.len());
    let baseline = json(&desk.path(BASELINE));
    assert_eq!(baseline["prompts"].as_array().map(Vec::len), Some(16));
    assert_eq!(baseline["scopes"]["base"]["means"]["kl"]["interval"].as_array().map(Vec::len), Some(2));
    for place in
        [&baseline["prompts_sha256"], &baseline["arm"]["recipe"]["sha256"], &baseline["checkpoint"]["weights_sha256"]]
    {
        assert_eq!(place.as_str().map(str::len), Some(64), "{place}");
    }
    assert_eq!(baseline["versions"]["fidelity"], env!("CARGO_PKG_VERSION"));
    run(&desk, "other", &["--recipe", "a8w8"]);
    for arguments in
        [&["gate", "good"][..], &["gate", "other", "--baseline", BASELINE, "--allow", "recipe"], &["report", "good"]]
    {
        desk.fidelity(arguments);
        assert!(fs::read(desk.path(BASELINE)).expect("there") == before, "{arguments:?}");
    }
    let again = desk.fidelity(&["bless", "good"]);
    assert!(
        again.stdout.contains("The baseline before said the same.") && again.last_line().contains("replaced baseline")
    );
    let other = desk.fidelity(&["bless", "other", "--out", BASELINE]);
    assert!(
        other.stdout.contains("recipe: was a16w8") && other.stdout.contains("verdict: was faithful, is degraded"),
        "{other:?}"
    );
}

#[test]
fn a_worse_recipe_is_refused_and_on_purpose_it_fails() {
    let desk = blessed();
    run(&desk, "worse", &["--recipe", "a8w8"]);
    let refused = desk.fidelity(&["gate", "worse", "--baseline", BASELINE]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(
        refused.stderr.contains("recipe: was a16w8 (text ") && refused.stderr.contains("--allow recipe"),
        "{refused:?}"
    );
    let absent = desk.fidelity(&["gate", "worse"]);
    assert_eq!(absent.code, Some(2));
    assert!(absent.stderr.contains("there is no baseline reports/baselines/demo/emulator/a8w8.json"), "{absent:?}");
    let failed = desk.fidelity(&["gate", "worse", "--baseline", BASELINE, "--allow", "recipe"]);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    assert!(failed.last_line().starts_with("gate fail: emulator a8w8 of demo · "), "{failed:?}");
    let gate = json(&desk.path("worse/gate.json"));
    assert_eq!(
        (&gate["scopes"]["base"]["pearson"]["conclusion"], &gate["allowed"][0]),
        (&"fail".into(), &"recipe".into())
    );
    // With margins wide enough it passes, and what got worse is still said.
    let wide = ["--margin", "top1=0.2", "--margin", "pearson=0.5", "--margin", "kl=1", "--margin", "nmse=1"];
    let passed = desk
        .fidelity(&[&["gate", "worse", "--baseline", BASELINE, "--allow", "recipe", "--quiet"][..], &wide].concat());
    assert_eq!(passed.code, Some(0), "{passed:?}");
    assert!(passed.stdout.contains("worse within its margin: base top1"), "{passed:?}");
}

#[test]
fn a_better_run_passes_and_that_is_pointed_out() {
    let desk = Desk::new();
    let answer = desk.fidelity(&["gate", "--recipes", "a8w8", "a16w8", "--scopes", "base", "--out", "both", "--quiet"]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.stdout.contains("better: base top1, base pearson, base kl, base nmse"), "{answer:?}");
    let worse = desk.fidelity(&["gate", "--recipes", "a16w8", "a8w8", "--scopes", "base", "--out", "worse"]);
    assert_eq!(worse.code, Some(1), "{worse:?}");
    assert!(
        worse.stdout.contains("was a16w8 (text ") && desk.path("worse/candidate/report.html").is_file(),
        "{worse:?}"
    );
    assert!(!desk.path("worse/candidate/arm").exists() && !desk.path("worse/reference").exists());
    assert!(!desk.path("reports").exists(), "nothing was blessed");
}

#[test]
fn other_prompts_are_refused_by_name_and_two_decide_nothing() {
    let desk = blessed();
    desk.write(
        "two.txt",
        include_str!("../../../../prompts/demo.txt").lines().take(2).collect::<Vec<_>>().join("\n").as_str(),
    );
    run(&desk, "two", &["--prompts", "two.txt"]);
    let refused = desk.fidelity(&["gate", "two"]);
    assert_eq!(refused.code, Some(2), "{refused:?}");
    assert!(refused.stderr.contains("prompts: 14 gone (p0002, p0003, p0004, …)"), "{refused:?}");
    for arguments in [&["gate", "two", "--allow", "prompts"][..], &["gate", "two", "--baseline", "two.json"]] {
        desk.fidelity(&["bless", "two", "--out", "two.json"]);
        let answer = desk.fidelity(arguments);
        assert_eq!(answer.code, Some(3), "{answer:?}");
        assert!(answer.last_line().ends_with("· 6 prompts needed"), "{answer:?}");
    }
    // The same two, eight times over, are two.
    let text = fs::read_to_string(desk.path("two.txt")).expect("there");
    desk.write("copies.txt", &format!("{text}\n").repeat(8));
    run(&desk, "copies", &["--prompts", "copies.txt"]);
    desk.fidelity(&["bless", "copies", "--out", "copies.json"]);
    let answer = desk.fidelity(&["gate", "copies", "--baseline", "copies.json"]);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.stdout.contains("14 prompts repeat the tokens of others"), "{answer:?}");
}

#[test]
fn what_is_wrong_on_purpose_is_neither_gated_nor_blessed() {
    let desk = blessed();
    let before = fs::read(desk.path(BASELINE)).expect("there");
    run(&desk, "fault", &["--fault", "gqa_tile"]);
    for arguments in [["bless", "fault"], ["gate", "fault"]] {
        let answer = desk.fidelity(&arguments);
        assert_eq!(answer.code, Some(2), "{answer:?}");
        assert!(answer.stderr.contains("the run carries intervention `gqa_tile`"), "{answer:?}");
    }
    // A kind that this version does not know is none that it can vouch for.
    let link = fs::read_to_string(desk.path("fault/verdict.json"))
        .expect("there")
        .replace("\"intervention\"", "\"link_fault\"");
    desk.write("link/verdict.json", &link);
    assert!(desk.fidelity(&["gate", "link"]).stderr.contains("link_fault"));
    let both = desk.fidelity(&["run", "--fault", "gqa_tile", "--gate"]);
    assert_eq!(both.code, Some(2), "{both:?}");
    assert!(fs::read(desk.path(BASELINE)).expect("there") == before);
}

#[test]
fn runs_that_are_no_measure_are_not_blessed() {
    let desk = Desk::new();
    let short =
        desk.fidelity(&["run", "--prompt", "Once upon a time", "--new-tokens", "4", "--quiet", "--out", "short"]);
    assert_eq!(short.code, Some(3));
    let answer = desk.fidelity(&["bless", "short"]);
    assert_eq!(answer.code, Some(2));
    assert!(answer.stderr.contains("not blessed: the run is inconclusive"), "{answer:?}");
    run(&desk, "good", &[]);
    let whole = json(&desk.path("good/verdict.json"));
    let mut failed = whole.clone();
    failed["prompts"][3]["status"] = "failed".into();
    failed["exit_code"] = 4.into();
    desk.write("failed/verdict.json", &failed.to_string());
    let answer = desk.fidelity(&["bless", "failed"]);
    assert!(
        answer.stderr.contains("not blessed: 1 of 16 prompts were not computed, the first is `p0003`"),
        "{answer:?}"
    );
    // Against a sound baseline that is a failed device.
    desk.fidelity(&["bless", "good"]);
    let gated = desk.fidelity(&["gate", "failed"]);
    assert_eq!(gated.code, Some(4), "{gated:?}");
    // A row that is not finite is no matter of chance.
    let mut lost = whole;
    let row = &mut lost["scopes"]["tbt"]["rows"][5];
    row["finite"] = false.into();
    for metric in ["pearson", "kl", "nmse"] {
        row[metric] = Value::Null;
    }
    desk.write("lost/verdict.json", &lost.to_string());
    let gated = desk.fidelity(&["gate", "lost"]);
    assert_eq!(gated.code, Some(1), "{gated:?}");
    assert!(
        gated.last_line().contains("tbt: top1 has no value (not finite, or constant) in 1 row, where"),
        "{gated:?}"
    );
    assert!(desk.fidelity(&["bless", "lost"]).stderr.contains("1 rows of tbt hold a NaN"));
}

#[test]
fn run_gates_itself() {
    let desk = blessed();
    let fixed = ["run", "--scopes", "base,tbt", "--no-diagnosis", "--quiet", "--gate"];
    let passed = desk.fidelity(&fixed);
    assert_eq!(passed.code, Some(0), "{passed:?}");
    assert!(passed.last_line().starts_with("gate pass: "), "{passed:?}");
    let missing = desk.fidelity(&[&fixed[..], &["nowhere.json", "--out", "never"]].concat());
    assert_eq!(missing.code, Some(2));
    assert!(
        missing.stderr.contains("cannot read nowhere.json") && !desk.path("never").exists(),
        "before anything is computed"
    );
    let machine = desk.fidelity(&["run", "--scopes", "base,tbt", "--json", "--out", "machine", "--gate"]);
    let verdict: Value = serde_json::from_str(&machine.stdout).expect("verdict.json and nothing else");
    assert_eq!((verdict["format"].as_str(), machine.code), (Some("fidelity-verdict"), Some(0)));
    assert!(desk.path("machine/gate.json").is_file());
    // The run's own verdict counts too.
    run(&desk, "worse", &["--recipe", "a8w8"]);
    desk.fidelity(&["bless", "worse"]);
    let degraded = desk.fidelity(&[&fixed[..], &["--recipe", "a8w8"]].concat());
    assert_eq!(degraded.code, Some(1), "{degraded:?}");
    assert!(degraded.last_line().starts_with("gate pass: "), "{degraded:?}");
}

#[test]
fn other_things_are_named_each() {
    let desk = blessed();
    let baseline = fs::read_to_string(desk.path(BASELINE)).expect("there");
    let recipe = json(&desk.path(BASELINE))["arm"]["recipe"]["sha256"].as_str().expect("a digest").to_owned();
    let weights = json(&desk.path(BASELINE))["checkpoint"]["weights_sha256"].as_str().expect("a digest").to_owned();
    let other = "0".repeat(64);
    for (from, to, says) in [
        (recipe.as_str(), other.as_str(), "recipe: was a16w8 (text 000000000000)"),
        (weights.as_str(), other.as_str(), "checkpoint: was demo (embedded:demo, weights 000000000000)"),
        ("\"hef_sha256\": null", &format!("\"hef_sha256\": \"{other}\""), "hef: was 000000000000, is not known"),
        ("\"device\": \"emulator\"", "\"device\": \"hailo10h\"", "device: was emulator hailo10h, is emulator"),
        ("\"calibration\": \"built-in", "\"calibration\": \"mine", "calibration: was mine"),
        ("    \"base\": {", "    \"prefill\": {", "scopes: were prefill, tbt, are base, tbt"),
        ("\"rows\":66", "\"rows\":65", "rows: base: 2 prompts have another number of rows (p0000: was 65, is 66)"),
    ] {
        assert!(baseline.contains(from), "{from}");
        desk.write("changed.json", &baseline.replace(from, to));
        let refused = desk.fidelity(&["gate", "good", "--baseline", "changed.json"]);
        assert_eq!(refused.code, Some(2), "{from}: {refused:?}");
        assert!(refused.stderr.contains(says), "{from}: {}", refused.stderr);
        let what = says.split(':').next().expect("a name");
        let allowed = desk.fidelity(&["gate", "good", "--baseline", "changed.json", "--allow", what]);
        assert_eq!(allowed.code, Some(0), "{from}: {allowed:?}");
        assert!(allowed.stdout.contains("compared on purpose"), "{from}: {allowed:?}");
    }
}

#[test]
fn a_hostile_baseline_is_refused() {
    let desk = blessed();
    let baseline = fs::read_to_string(desk.path(BASELINE)).expect("there");
    let digest = json(&desk.path(BASELINE))["prompts"][0]["sha256"].as_str().expect("a digest").to_owned();
    for (text, says) in [
        (String::new(), "is not a baseline that this version reads"),
        ("[".repeat(100_000), "is not a baseline"),
        (baseline.replacen("\"rows\":66", "\"rows\":\"\\u001b[2J\"", 1), "invalid type"),
        (baseline.replacen("\"version\": 1", "\"version\": 9", 1), "expected `fidelity-baseline` version 1"),
        (baseline.replacen("\"mean\":0.99", "\"mean\":NaN", 1), "expected value"),
        (baseline.replacen(&digest, &"1".repeat(64), 1), "edited by hand"),
        (baseline.replacen("\"id\":\"p0000\"", "\"id\":\"p0001\"", 1), "twice"),
    ] {
        assert_ne!(text, baseline, "{says}");
        desk.write("hostile.json", &text);
        let answer = desk.fidelity(&["gate", "good", "--baseline", "hostile.json"]);
        assert_eq!(answer.code, Some(2), "{says}: {answer:?}");
        assert!(answer.stderr.contains(says), "{says}: {}", answer.stderr);
        assert!(!answer.stderr.contains('\u{1b}'), "{says}");
    }
    // A sparse file of 1 GB: its size is looked at before it is read.
    fs::File::create(desk.path("huge.json")).and_then(|file| file.set_len(1 << 30)).expect("creates");
    for path in ["huge.json", "good"] {
        let answer = desk.fidelity(&["gate", "good", "--baseline", path]);
        assert_eq!(answer.code, Some(2));
        assert!(answer.stderr.contains("is no file of up to 16777216 bytes"), "{answer:?}");
    }
    // Nothing but a baseline is written over.
    desk.write("notes.json", "{}");
    assert_eq!(desk.fidelity(&["bless", "good", "--out", "notes.json"]).code, Some(2));
    assert_eq!(fs::read_to_string(desk.path("notes.json")).expect("there"), "{}");
    // A row of a prompt that is not there.
    let verdict = fs::read_to_string(desk.path("good/verdict.json")).expect("there");
    desk.write("bad/verdict.json", &verdict.replacen("{\"prompt\":0,", "{\"prompt\":99,", 1));
    let answer = desk.fidelity(&["gate", "bad"]);
    assert!(
        answer.code == Some(2) && answer.stderr.contains("a row of prompt 99, but there are 16 prompts"),
        "{answer:?}"
    );
}

#[test]
fn wrong_calls_are_said() {
    let desk = Desk::new();
    for (arguments, says) in [
        (&["gate"][..], "<RUN>"),
        (&["gate", "nowhere"], "cannot read nowhere"),
        (&["gate", "x", "--recipes", "a", "b"], "cannot be used with"),
        (&["gate", "x", "--checkpoint", "demo"], "cannot be used with"),
        (&["gate", "x", "--margin", "top1=-1"], "is no margin"),
        (&["gate", "x", "--margin", "fid=1"], "is no metric of a gate"),
        (&["gate", "x", "--allow", "all"], "expected some of checkpoint"),
        (&["gate", "--recipes", "a16w8"], "2 values required"),
        (&["gate", "--recipes", "a16w8", "nowhere"], "there is no file `nowhere`"),
        (&["bless"], "<RUN>"),
    ] {
        let answer = desk.fidelity(arguments);
        assert_eq!(answer.code, Some(2), "{arguments:?}: {answer:?}");
        assert!(answer.stderr.contains(says), "{arguments:?}: {}", answer.stderr);
    }
}

#[test]
fn the_page_of_a_run_shows_its_gate_until_there_is_another_verdict() {
    let desk = blessed();
    let page = || fs::read_to_string(desk.path("good/report.html")).expect("there");
    assert!(!page().contains("id=\"gate\""), "nobody asked");
    assert_eq!(desk.fidelity(&["gate", "good"]).code, Some(0));
    for made_by in ["gate", "report"] {
        assert_eq!(desk.fidelity(&[made_by, "good"]).code, Some(0));
        let page = page();
        assert!(page.contains("Gate against the baseline</a>: ✓ pass"), "{made_by}");
        let reproduce = page.split_once("<h2 id=\"reproduce\">").expect("it says how").1;
        assert!(reproduce.contains("<code>fidelity run --scopes base,tbt "), "{made_by}: {reproduce}");
        assert!(page.contains("<dt>fidelity</dt><dd>") && !page.contains("<dt>machine</dt><dd>unknown"), "{made_by}");
    }
    run(&desk, "good", &["--recipe", "a8w8"]);
    assert!(!desk.path("good/gate.json").exists() && !desk.path("good/gate.md").exists());
    desk.fidelity(&["report", "good"]);
    assert!(!page().contains("id=\"gate\""));
}

#[test]
fn a_faithful_run_that_fails_its_gate_does_not_look_green() {
    let desk = blessed();
    let text = fs::read_to_string(desk.path("good/verdict.json")).expect("there");
    // The same verdict, but half a nat farther from the reference in every row.
    let mut verdict: Value = serde_json::from_str(&text).expect("JSON");
    for row in verdict["scopes"]["base"]["rows"].as_array_mut().expect("rows") {
        row["kl"] = 0.5.into();
    }
    desk.write("worse/verdict.json", &verdict.to_string());
    let answer = desk.fidelity(&["gate", "worse"]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    let page = fs::read_to_string(desk.path("worse/report.html")).expect("there");
    let banner = page.split_once("</header>").expect("a banner").0;
    assert!(banner.contains("faithful") && banner.contains("</a>: ✗ fail. Exit code 1."), "{banner}");
}
