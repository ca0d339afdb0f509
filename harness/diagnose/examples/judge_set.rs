//! Diagnoses every trace of a set whose truth is known.
use std::{path::Path, sync::Mutex, time::Instant};

use fidelity_diagnose::{Question, diagnose};
use fidelity_emulator::Emulator;
use fidelity_references::Checkpoint;
use fidelity_trace::{Trace, in_parallel};
use serde_json::Value;

fn main() {
    let mut args = std::env::args().skip(1);
    let set = args.next().expect("a folder");
    let filter: Vec<String> = args.collect();
    let truth: Vec<Value> =
        serde_json::from_str(&std::fs::read_to_string(format!("{set}/truth.json")).expect("truth")).expect("json");
    let lines = Mutex::new(());
    let done = in_parallel(truth.len(), 2, |index| {
        let case = &truth[index];
        let name = case["case"].as_str().unwrap_or_default();
        let fault = case["fault"].to_string().replace('"', "");
        if !filter.is_empty() && !filter.iter().any(|it| fault.contains(it.as_str()) || name == it) {
            return Ok::<_, ()>(());
        }
        let checkpoint = case["checkpoint"].as_str().unwrap_or_default();
        let checkpoint = Checkpoint::open(Path::new(checkpoint), "golden").expect("opens");
        let float32 = Emulator::float32(&checkpoint).expect("loads");
        let device = Trace::open(&Path::new(&set).join(name)).expect("trace");
        let prompts = std::fs::read_to_string(format!("{set}/prompts/{name}.jsonl")).unwrap_or_default();
        let right: std::collections::BTreeMap<String, Vec<u32>> = prompts
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok())
            .filter_map(|p| Some((p["id"].as_str()?.to_owned(), serde_json::from_value(p["token_ids"].clone()).ok()?)))
            .collect();
        let start = Instant::now();
        let question = Question {
            float32: &float32,
            emulated: None,
            checkpoint: &checkpoint,
            device: &device,
            right_ids: &right,
            scopes: &[],
            bos: fidelity_trace::BosConvention::Tokenizer,
            first_bad_site: None,
        };
        let found = diagnose(&question, &|_| {});
        let _guard = lines.lock();
        match found {
            Ok(d) => println!(
                "{}",
                serde_json::json!({"case": name, "truth": fault, "tblock": case["block"], "tvalue": case["value"], "variant": case["variant"], "also": case["also"], "reading": case["reading"],
                    "noise": case["noise"], "effect": case["effect"], "noise_level": case["noise_level"], "ckpt": case["checkpoint"].as_str().and_then(|c| c.rsplit('/').next()),
                    "name": d.name, "block": d.block, "parameter": d.parameter, "residual": d.residual, "clean": d.clean.residual,
                    "ranked": d.ranked.iter().map(|c| format!("{} {:.2e}", c.fault, c.residual)).collect::<Vec<_>>(), "scopes": d.scopes, "equivalent": d.equivalent,
                    "passes": d.passes, "s": start.elapsed().as_secs_f64()})
            ),
            Err(error) => println!("{}", serde_json::json!({"case": name, "truth": fault, "error": error.to_string()})),
        }
        Ok(())
    });
    done.expect("runs");
}
