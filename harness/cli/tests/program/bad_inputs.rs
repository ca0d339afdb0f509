//! Wrong inputs: exit 2, one sentence that says what was found, what was expected and what to do, and nothing written.

use std::fs;

use crate::support::{Desk, golden_checkpoint};

/// The message of a refused call.
fn refused(desk: &Desk, arguments: &[&str]) -> String {
    let answer = desk.fidelity(arguments);
    assert_eq!(answer.code, Some(2), "{arguments:?}: {answer:?}");
    assert_eq!(answer.stdout, "");
    assert!(!desk.path("runs").exists(), "{arguments:?} left something behind");
    answer.stderr
}

#[test]
fn what_cannot_be_found() {
    let desk = Desk::new();
    for (arguments, expected) in [
        (&["run", "--checkpoint", "tinystory-25m"][..], "(did you mean `tinystories-25m`?)"),
        (
            &["run", "--checkpoint", "qwen3-0.6b", "--offline"],
            "run once without --offline (and HF_HUB_OFFLINE), or `hf download Qwen/Qwen3-0.6B --revision main`",
        ),
        (&["run", "--weights", "nowhere"], "nowhere is not a Hugging Face checkpoint folder: config.json is missing"),
        (
            &["run", "--recipe", "a4w4"],
            "--recipe: there is no file `a4w4` and nothing built in of that name; built in: default, hailo-llm, hailo-llm-reduced, a16w8, a8w8, a8w4",
        ),
        (&["run", "--prompts", "mine.txt"], "--prompts: there is no file `mine.txt`"),
        (&["run", "--calibration", "mine.txt"], "--calibration: there is no file `mine.txt`"),
        (&["run", "--fault", "gqa_tiles"], "did you mean `gqa_tile`?"),
        (&["run", "--fault", "gqa_tile@9"], "block 9 does not exist, the checkpoint has 4 blocks (0 to 3)"),
        (&["run", "--taps", "blocks.9.q"], "names block 9, but the checkpoint has 4 blocks"),
        (&["run", "--scopes", "decode"], "`decode` is not a scope"),
        (
            &["run", "--scopes", "tbt", "--new-tokens", "1"],
            "`tbt` needs generated ids, but --new-tokens is 1; give at least 2",
        ),
        (&["run", "--device", "hailo"], "--device hailo needs the compiled model"),
        (&["run", "--resume"], "--out"),
        (&["report", "nowhere"], "cannot read nowhere"),
    ] {
        let message = refused(&desk, arguments);
        assert!(message.contains(expected), "{arguments:?}: {message}");
    }
}

#[test]
fn a_fault_that_would_change_nothing_is_refused() {
    let desk = Desk::new();
    let prompts = desk.write("p.jsonl", crate::support::PROMPTS);
    let weights = golden_checkpoint().with_file_name("llama-mha-tied");
    let (prompts, weights) = (prompts.to_str().expect("UTF-8"), weights.to_str().expect("UTF-8"));
    let message =
        refused(&desk, &["run", "--weights", weights, "--prompts", prompts, "--recipe", "none", "--fault", "gqa_tile"]);
    assert!(
        message.contains("`gqa_tile` would change nothing in this checkpoint: it has as many kv heads"),
        "{message}"
    );
}

#[test]
fn prompts_that_cannot_be_run() {
    let desk = Desk::new();
    let file = |name: &str, text: &str| desk.write(name, text).to_str().expect("UTF-8").to_owned();
    let long = format!("{{\"token_ids\":[{}]}}", vec!["1"; 500].join(","));
    for (prompts, expected) in [
        (file("empty.txt", ""), "no prompts in it"),
        (file("blank.jsonl", "{\"text\":\"\"}"), "blank.jsonl:1: empty prompt"),
        (
            file("ids.jsonl", "{\"id\":\"x\",\"token_ids\":[1,2,512]}"),
            "prompt `x`: token id 512 at position 2 is outside the vocabulary of 512 (0 to 511)",
        ),
        (
            file("long.jsonl", &long),
            "has 500 tokens and generates 32, but max_position_embeddings in config.json is 512; shorten the prompt or --new-tokens",
        ),
        (file("bad.jsonl", "{\"txt\":1}"), "bad.jsonl:1: unknown field `txt`"),
    ] {
        let message = refused(&desk, &["run", "--prompts", &prompts]);
        assert!(message.contains(expected), "{message}");
    }
    assert!(refused(&desk, &["run", "--prompt", ""]).contains("--prompt:1: empty prompt"));
    desk.write("checkpoints.toml", "[small]\nsource = 'embedded:demo'\nprefill = 8\ncache = 40\n");
    let ten = file("ten.jsonl", "{\"token_ids\":[1,2,3,4,5,6,7,8,9,10]}");
    let prefill = refused(&desk, &["run", "--checkpoint", "small", "--prompts", &ten]);
    assert!(
        prefill.contains("has 10 tokens, but the compiled prefill (`prefill` in checkpoints.toml) is 8"),
        "{prefill}"
    );
    let nine = file("nine.jsonl", "{\"token_ids\":[1,2,3,4,5,6,7,8]}");
    let cache = refused(&desk, &["run", "--checkpoint", "small", "--prompts", &nine, "--new-tokens", "33"]);
    assert!(cache.contains("has 8 tokens and generates 33, but the compiled KV-cache"), "{cache}");
}

#[test]
fn configuration_files_that_are_wrong() {
    let desk = Desk::new();
    desk.write("checkpoints.toml", "[demo]\nsource = 'embedded:demo'\nrecipee = 'a8w8'\n");
    assert!(refused(&desk, &["run"]).contains("`demo` has an unknown key `recipee` (did you mean `recipe`?)"));
    desk.write("checkpoints.toml", "[demo]\nsource = 'embedded:other'\n");
    assert!(refused(&desk, &["run"]).contains("only `demo` is compiled in"));
    fs::remove_file(desk.path("checkpoints.toml")).expect("there");
}

#[test]
fn a_recipe_that_is_wrong_is_drawn_where_it_is() {
    let desk = Desk::new();
    desk.write("r.alls", "# wide\nquantization_param({residual_ads}, precision_mode=a16_w16)\n");
    let answer = refused(&desk, &["run", "--recipe", "r.alls"]);
    assert!(answer.contains("r.alls:2:20: `residual_ads` is not a layer (did you mean `residual_adds`?)"), "{answer}");
    let drawn =
        [" 2 │ quantization_param({residual_ads}, precision_mode=a16_w16)", "                    ───────┬──────"];
    assert!(drawn.iter().all(|line| answer.contains(line)), "{answer}");
    desk.write("r.alls", "smarter_softmax()\u{1b}[31m\n");
    let answer = refused(&desk, &["run", "--recipe", "r.alls"]);
    assert!(answer.contains("r.alls:1:18: `\\u{1b}` has no place in a model script"), "{answer}");
    assert!(!answer.contains('\u{1b}'), "{answer}");
    desk.write("r.alls", "quantization_param(conv1, precision_mode=a8_w8)\n");
    desk.write("names.toml", "conv1 = 'blocks.7.q_proj'\n");
    let answer = refused(&desk, &["run", "--recipe", "r.alls", "--layer-names", "names.toml"]);
    assert!(answer.contains("`blocks.7.q_proj` is not a layer"), "{answer}");
    desk.write("names.toml", "conv1 = 7\n");
    let answer = refused(&desk, &["run", "--recipe", "r.alls", "--layer-names", "names.toml"]);
    assert!(answer.contains("names.toml: `conv1` is neither a name nor a list of names"), "{answer}");
}

#[test]
fn a_checkpoint_folder_that_is_wrong() {
    let desk = Desk::new();
    let copy = |change: &dyn Fn(&str, Vec<u8>) -> Vec<u8>| {
        for file in ["config.json", "model.safetensors"] {
            let bytes = change(file, fs::read(golden_checkpoint().join(file)).expect("there"));
            fs::create_dir_all(desk.path("folder")).expect("creates");
            fs::write(desk.path("folder").join(file), bytes).expect("writes");
        }
        desk.write("p.jsonl", crate::support::PROMPTS);
        refused(&desk, &["run", "--weights", "folder", "--prompts", "p.jsonl", "--calibration", "p.jsonl"])
    };
    let replaced = |from: &'static str, to: &'static str| {
        move |file: &str, bytes: Vec<u8>| match file {
            "config.json" => String::from_utf8(bytes).expect("UTF-8").replace(from, to).into_bytes(),
            _ => bytes,
        }
    };
    assert!(copy(&replaced("\"llama\"", "\"mamba\"")).contains("folder/config.json: `model_type` is \"mamba\""));
    assert!(copy(&replaced("\"silu\"", "\"mish\"")).contains("`hidden_act` is \"mish\""));
    assert!(
        copy(&replaced("\"vocab_size\": 320", "\"vocab_size\": 321"))
            .contains("has shape [320, 64], expected [321, 64]")
    );
    let pointer = copy(&|file, bytes| {
        if file == "config.json" { bytes } else { b"version https://git-lfs.github.com/spec/v1\n".to_vec() }
    });
    assert!(pointer.contains("a Git LFS pointer, not the weights; run `git lfs pull`"), "{pointer}");
    let text = desk.fidelity(&["run", "--weights", golden_checkpoint().to_str().expect("UTF-8"), "--prompt", "hi"]);
    assert!(text.stderr.contains("has no tokenizer.json, which text prompts need"), "{}", text.stderr);
}
