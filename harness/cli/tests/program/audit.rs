//! `fidelity audit` as a person uses it.

use std::fs;

use serde_json::Value;

use crate::support::{Answer, Desk, golden_checkpoint};
use fidelity_hef_writer::{
    hef_writer::{Hef, Resource},
    llm_writer::{EMBEDDING_SCALE, EMBEDDING_ZERO_POINT, Llm},
};

/// Writes a HEF to the desk and audits it.
fn audited(desk: &Desk, hef: &Hef, more: &[&str]) -> Answer {
    fs::write(desk.path("model.hef"), hef.v3()).expect("writes");
    desk.fidelity(&[&["audit", "model.hef"], more].concat())
}

/// A compiled model of the golden checkpoint.
fn of_golden() -> Hef {
    let weights = fs::read(golden_checkpoint().join("model.safetensors")).expect("there");
    let file = safetensors::SafeTensors::deserialize(&weights).expect("whole");
    let table = file.tensor("model.embed_tokens.weight").expect("there");
    assert_eq!(table.dtype(), safetensors::Dtype::F32);
    let config: Value = crate::support::json(&golden_checkpoint().join("config.json"));
    let size = |key: &str| config[key].as_u64().expect("a size");
    let head_dim = size("hidden_size") / size("num_attention_heads");
    let theta = config["rope_theta"].as_f64().or(config["rope_parameters"]["rope_theta"].as_f64()).expect("a base");
    let half = head_dim / 2;
    Llm {
        hidden: size("hidden_size"),
        query_heads: size("num_attention_heads"),
        kv_heads: size("num_key_value_heads"),
        head_dim,
        vocabulary: size("vocab_size"),
        theta: (0..head_dim).map(|at| theta.powf(-((at % half) as f64) / half as f64) as f32).collect(),
        embedding: table.data().as_chunks::<4>().0.iter().map(|quad| f32::from_le_bytes(*quad)).collect(),
        ..Llm::default()
    }
    .hef()
}

#[test]
fn a_sound_language_model() {
    let desk = Desk::new();
    let answer = audited(&desk, &Llm::default().hef(), &[]);
    assert_eq!((answer.code, answer.stderr.as_str()), (Some(0), ""), "{answer:?}");
    assert!(
        answer.last_line().starts_with("pass: all 29 checks that apply hold · no checkpoint given · "),
        "{answer:?}"
    );
    for expected in [
        "Group base_model__prefill (network small_prefill): 2 contexts",
        "  in  small_prefill/input_layer1 1x4x32 UINT16 FCR, scale 0.000122, zero point",
        "  cache read 1x12x16 UINT8 FCR: ids 0-3",
        "  pass    outputs               2 x [1, 1, 20] = 40 logits",
        "checks neither its magic number, nor its length",
        "architecture 103 (HAILO1XH): runs on HAILO15H, HAILO10H",
    ] {
        assert!(answer.stdout.contains(expected), "{expected} is not in\n{}", answer.stdout);
    }
    let widest = answer.stdout.lines().rev().skip(1).map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{widest:?} columns");
    let quiet = audited(&desk, &Llm::default().hef(), &["--quiet"]);
    assert_eq!(quiet.stdout.lines().count(), 1, "{quiet:?}");
}

#[test]
fn a_failed_check_exits_1_and_says_why_it_matters() {
    let desk = Desk::new();
    let mut hef = Llm::default().hef();
    let mut config = Llm::default().config();
    let table = config["pre_process_params"].as_object_mut().expect("an object");
    let count = table.remove("prefill_input_tokens_count").expect("there");
    table.insert("prefill_input_tokens_size".into(), count);
    hef.resources[0] = Resource::new("hailo-config.json", config.to_string());
    let answer = audited(&desk, &hef, &[]);
    assert_eq!(answer.code, Some(1), "{answer:?}");
    assert!(answer.last_line().starts_with("fail: "), "{answer:?}");
    assert!(answer.stdout.contains("  FAIL    config_keys "), "{answer:?}");
    assert!(answer.stdout.contains("why: a misspelt key is ignored"), "{answer:?}");
}

#[test]
fn what_cannot_be_told_exits_3() {
    let desk = Desk::new();
    let mut hef = Llm::default().hef();
    hef.resources.retain(|resource| resource.name != "rope_theta_data.bin");
    let answer = audited(&desk, &hef, &[]);
    assert_eq!(answer.code, Some(3), "{answer:?}");
    assert!(answer.last_line().starts_with("unknown: no check fails, but "), "{answer:?}");
}

#[test]
fn a_file_that_is_no_language_model() {
    let desk = Desk::new();
    let answer = audited(&desk, &Hef::small(), &[]);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    assert!(answer.last_line().starts_with("not applicable: not a language model"), "{answer:?}");
    // Asked to compare and unable to is no pass.
    let compared = audited(&desk, &Hef::small(), &["--checkpoint", "demo"]);
    assert_eq!(compared.code, Some(3), "{compared:?}");
    assert!(compared.last_line().contains(" · against checkpoint demo · "), "{compared:?}");
}

#[test]
fn damaged_files() {
    let desk = Desk::new();
    let bytes = Llm::default().hef().v3();
    fs::write(desk.path("cut.hef"), &bytes[..bytes.len() - 5000]).expect("writes");
    let cut = desk.fidelity(&["audit", "cut.hef"]);
    assert_eq!(cut.code, Some(1), "{cut:?}");
    assert!(cut.stdout.contains("5000 are missing"), "{cut:?}");
    for (bytes, expected) in [
        (&bytes[..300], "bad.hef: the header gives the protobuf "),
        (&b""[..], "bad.hef: 0 bytes long, but a HEF header takes at least 12"),
        (
            &b"version https://git-lfs.github.com/spec/v1\n"[..],
            "it is a Git LFS pointer, not the file: run `git lfs pull`",
        ),
    ] {
        fs::write(desk.path("bad.hef"), bytes).expect("writes");
        let answer = desk.fidelity(&["audit", "bad.hef"]);
        assert_eq!((answer.code, answer.stdout.as_str()), (Some(2), ""), "{answer:?}");
        assert!(answer.stderr.contains(expected), "{answer:?}");
    }
    let missing = desk.fidelity(&["audit", "nowhere.hef"]);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stderr.contains("nowhere.hef: cannot open the file"), "{missing:?}");
    assert_eq!(desk.fidelity(&["audit"]).code, Some(2));
    assert_eq!(audited(&desk, &Hef::small(), &["--checkpoint", "nothing"]).code, Some(2));
}

#[test]
fn against_the_checkpoint_it_was_made_of() {
    let desk = Desk::new();
    let folder = golden_checkpoint();
    let weights = ["--weights", folder.to_str().expect("UTF-8")];
    let mut hef = of_golden();
    let states = |hef: &Hef| {
        let answer = audited(&desk, hef, &[&weights[..], &["--json"]].concat());
        let json: Value = serde_json::from_str(&answer.stdout).expect("JSON and nothing else");
        assert_eq!(json["exit_code"].as_i64(), answer.code.map(i64::from), "{answer:?}");
        let checks = json["checks"].as_array().expect("a list").clone();
        move |id: &str| {
            let check = checks.iter().find(|check| check["id"] == id).expect("every check");
            (check["state"].as_str().expect("a state").to_owned(), check["found"].as_str().expect("text").to_owned())
        }
    };
    let found = states(&hef);
    for id in ["checkpoint_shape", "checkpoint_embeddings", "checkpoint_theta"] {
        assert_eq!(found(id).0, "pass", "{id}: {:?}", found(id));
    }
    // The golden has no tokenizer: nothing is claimed.
    for id in ["checkpoint_tokenizer", "checkpoint_bos"] {
        assert_eq!(found(id).0, "unknown", "{:?}", found(id));
    }
    // One code of one row, twenty steps off.
    let table = &mut hef.resources[1].bytes;
    let at = 2 * (64 * 17 + 5);
    let code = u16::from_le_bytes([table[at], table[at + 1]]) ^ 20;
    table[at..at + 2].copy_from_slice(&code.to_le_bytes());
    let (state, said) = states(&hef)("checkpoint_embeddings");
    assert!(state == "fail" && said.contains("1 of 20480 values") && said.contains("first row 17"), "{said}");
}

#[test]
fn names_cannot_steer_the_terminal() {
    let desk = Desk::new();
    let mut hef = Hef::small();
    hef.groups[0].name = "evil\u{1b}[2J\u{202e}".into();
    hef.groups[0].contexts[0].edges[0].name = "net/\u{7}\nfake: pass".into();
    hef.resources.push(Resource::new("../\u{1b}]0;x\u{7}", *b"x"));
    let answer = audited(&desk, &hef, &[]);
    let steers = |character: char| character != '\n' && (character.is_control() || character == '\u{202e}');
    assert!(!answer.stdout.chars().any(steers), "{:?}", answer.stdout);
    assert!(
        answer.stdout.contains("evil\\u{1b}[2J\\u{202e}") && answer.stdout.contains("net/\\u{7}\\nfake: pass"),
        "{answer:?}"
    );
}

#[test]
fn what_the_writer_quantises_with_is_what_the_file_says() {
    let desk = Desk::new();
    let answer = audited(&desk, &Llm::default().hef(), &["--json"]);
    let json: Value = serde_json::from_str(&answer.stdout).expect("JSON");
    let inputs = json["hef"]["groups"][0]["inputs"].as_array().expect("a list");
    let numbers =
        &inputs.iter().find(|input| input["name"] == "small_prefill/input_layer1").expect("there")["quantisation"];
    // Written as float32: the shortest digits that read back as the same.
    let number = |key: &str| numbers[key].as_f64().expect("a number") as f32;
    let bits = [number("scale"), number("zero_point")].map(f32::to_bits);
    assert_eq!(bits, [EMBEDDING_SCALE, EMBEDDING_ZERO_POINT].map(f32::to_bits));
}
