//! Golden checkpoints that did not exist before this run: `references/goldens/make.py` draws architectures' sizes, constants
//! and weights from a new seed, and transformers computes them. Needs Python with the packages of
//! `references/goldens/requirements.txt` (`FIDELITY_PYTHON` names it, else `python3`). `FIDELITY_GOLDEN_SEED` repeats a seed, and
//! then Python must be there.
#![expect(clippy::print_stderr, reason = "what was run, with which seed, and what was not")]

mod common;

use std::{
    env,
    path::Path,
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use common::{
    GOLDENS, Golden, golden, run,
    sites::{TOLERANCE, Worst, worst_rows},
};
use fidelity_references::{Checkpoint, Reference};
use fidelity_trace::{Capture, Scope, Site};

const NEW_TOKENS: usize = 12;

#[test]
fn fresh_checkpoints_match_transformers() {
    let python = env::var("FIDELITY_PYTHON").unwrap_or_else(|_| "python3".into());
    let asked = env::var("FIDELITY_GOLDEN_SEED").ok();
    let imports = Command::new(&python).args(["-c", "import numpy, safetensors, torch, transformers"]).output();
    if !imports.is_ok_and(|output| output.status.success()) {
        assert!(asked.is_none(), "FIDELITY_GOLDEN_SEED is set, but {python} lacks transformers");
        eprintln!("did not run: {python} with the packages of references/goldens/requirements.txt is not at hand");
        return;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as u64;
    let seed = asked.map_or(now, |seed| seed.parse().expect("FIDELITY_GOLDEN_SEED is a whole number"));
    eprintln!(
        "to repeat: FIDELITY_GOLDEN_SEED={seed} cargo test --release -p fidelity-references --test fresh_goldens"
    );
    let folder = tempfile::tempdir().expect("a temporary folder");
    make(&python, seed, folder.path());
    let mut failures = Vec::new();
    for name in GOLDENS.into_iter().chain(["bert"]) {
        failures.extend(differences(name, &folder.path().join(name)));
    }
    assert!(failures.is_empty(), "seed {seed}:\n{}", failures.join("\n"));
}

fn make(python: &str, seed: u64, folder: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("goldens/make.py");
    let seed = seed.to_string();
    let made = Command::new(python).arg(script).args(["--arch", "all", "--seed", &seed, "--out"]).arg(folder).output();
    let made = made.expect("Python starts");
    let printed = String::from_utf8_lossy(&made.stdout);
    assert!(made.status.success(), "{printed}{}", String::from_utf8_lossy(&made.stderr));
    eprintln!("{}", printed.lines().next().unwrap_or_default());
    let folders = folder.read_dir().expect("there").count();
    assert_eq!(folders, GOLDENS.len() + 1, "an architecture that this test does not know");
}

/// What of a checkpoint is not as transformers has it.
fn differences(name: &str, folder: &Path) -> Vec<String> {
    let decoder = Checkpoint::open(folder, name).and_then(|checkpoint| checkpoint.decoder(&|_, tensor| Ok(tensor)));
    let reference = match decoder {
        Ok(decoder) => Reference::without_noise(decoder),
        Err(error) => return vec![format!("{name}: {error}")],
    };
    let golden = golden(&folder.join("golden.safetensors"));
    let generates = golden.integers.contains_key("greedy_ids");
    let scopes: &[Scope] = if generates { &[Scope::Base, Scope::Tbt, Scope::TbtFree] } else { &[Scope::Base] };
    let capture = run(&reference, &golden.integers["token_ids"], if generates { NEW_TOKENS } else { 0 }, scopes);
    let mut failures = Vec::new();
    let mut farthest = (String::new(), Worst { row: 0, error: 0.0 });
    let decoded = generates.then(|| decoded(name, &golden, &capture, &mut failures));
    let sites = worst_rows(name, &golden, &capture).into_iter().map(|(site, worst)| (site.to_string(), worst));
    let steps = decoded.map(|(_, steps)| ("logits of a step".to_owned(), steps));
    for (site, worst) in sites.chain(steps) {
        if !worst.is_held() {
            failures.push(format!("{name}: {site}: {worst:?}"));
        }
        if worst.error > farthest.1.error || worst.error.is_nan() {
            farthest = (site, worst);
        }
    }
    let compared = decoded.map_or(0, |(compared, _)| compared);
    eprintln!("{name}: worst row {:.2e} ({}), {compared} greedy ids", farthest.1.error, farthest.0);
    failures
}

/// How many generated ids were compared, and the worst row of logits that chose them.
fn decoded(name: &str, golden: &Golden, capture: &Capture, failures: &mut Vec<String>) -> (usize, Worst) {
    let expected = &golden.integers["greedy_ids"];
    let (width, logits) = &golden.floats["greedy_logits"];
    let found = capture.generated.as_deref().unwrap_or_default();
    let same = expected.iter().zip(found).take_while(|(expected, found)| expected == found).count();
    if same < expected.len() || same < found.len() {
        match (expected.get(same), found.get(same)) {
            (Some(right), Some(other)) if is_tie(&logits[same * width..][..*width], *right, *other) => {
                eprintln!("{name}: generated id {same} is {other}, not {right}: transformers' own logits tie there");
            }
            _ => failures.push(format!("{name}: generated {found:?}, expected {expected:?}")),
        }
    }
    // Row 0 chose the first id and is the prompt's last; the ids before a row are the same on both sides.
    let prompt = &capture.scopes[&Scope::Base].sites[&Site::Logits];
    let steps = capture.scopes.get(&Scope::Tbt).and_then(|tbt| tbt.sites.get(&Site::Logits));
    let rows = expected.len().min(found.len()).min(same + 1);
    let worst = Worst::of(&logits[..rows * width], *width, |row| match row.checked_sub(1) {
        None => prompt.row(prompt.rows() - 1),
        Some(step) => steps.expect("steps were taken").row(step),
    });
    (same, worst)
}

/// Whether a row within the tolerance of this one may choose the other id: two values of it then move apart by √2 times the
/// row's distance at most.
fn is_tie(row: &[f32], right: u32, other: u32) -> bool {
    let norm = row.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
    let gap = f64::from(row[right as usize]) - f64::from(row[other as usize]);
    gap <= std::f64::consts::SQRT_2 * TOLERANCE * norm
}
