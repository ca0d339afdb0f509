//! `--weights FILE.gguf`.

use std::fs;

use crate::{
    gguf::from_folder,
    support::{Desk, PROMPTS, golden_checkpoint, json},
};

#[test]
fn the_trace_of_a_file_is_that_of_its_folder() {
    let desk = Desk::new();
    desk.write("prompts.jsonl", PROMPTS);
    from_folder(&golden_checkpoint(), None).write(&desk.path("tiny.gguf"));
    let reference = |weights: &str, out: &str| {
        let fixed = ["--prompts", "prompts.jsonl", "--new-tokens", "3", "--no-noise"];
        let answer = desk.fidelity(&[&["reference", "--weights", weights, "--out", out], &fixed[..]].concat());
        assert_eq!(answer.code, Some(0), "{answer:?}");
    };
    reference("tiny.gguf", "file");
    reference(golden_checkpoint().to_str().expect("UTF-8"), "folder");
    for prompt in ["prompts/0000.safetensors", "prompts/0001.safetensors"] {
        let tensors = |trace: &str| fs::read(desk.path(trace).join(prompt)).expect("there");
        assert!(tensors("file") == tensors("folder"), "{prompt}");
    }
    let checkpoint = &json(&desk.path("file/trace.json"))["checkpoint"];
    assert_eq!((&checkpoint["name"], &checkpoint["source"]), (&"tiny".into(), &"file:tiny.gguf".into()));
}

#[test]
fn text_prompts_need_the_tokenizer_beside_the_file() {
    let desk = Desk::new();
    from_folder(&golden_checkpoint(), None).write(&desk.path("tiny.gguf"));
    let answer = desk.fidelity(&["reference", "--weights", "tiny.gguf", "--prompt", "Once"]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.stderr.contains("tiny.gguf: there is no tokenizer.json beside it"), "{answer:?}");
}

#[test]
fn a_file_that_is_no_gguf_file_is_refused() {
    let desk = Desk::new();
    desk.write("model.safetensors", "{}      ");
    let answer = desk.fidelity(&["run", "--weights", "model.safetensors"]);
    assert_eq!(answer.code, Some(2), "{answer:?}");
    assert!(answer.stderr.contains("not a GGUF file (of a Hugging Face checkpoint, give the folder)"), "{answer:?}");
}
