//! GGUF files: the reference is that of the folder they were made from, bit for bit.

mod common;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use candle_core::Tensor;
use common::{
    gguf::{self, Gguf, Stored, Value, from_folder, list_value, text_value, u32_value},
    golden_folder, reference, relative_l2, run,
};
use fidelity_references::{Architecture, Checkpoint, CheckpointError, Reference, WeightFiles};
use fidelity_trace::{BosConvention, Capture, Scope};
use safetensors::{Dtype, tensor::TensorView};
use serde_json::json;
use tempfile::TempDir;

/// Goldens that a GGUF file can say.
const FOLDERS: [&str; 9] = [
    "llama-gqa",
    "llama-mha-tied",
    "llama-bias",
    "llama-head-dim",
    "llama-rope-linear",
    "llama-rope-yarn",
    "mistral-nowindow",
    "qwen2",
    "qwen3",
];

const IDS: [u32; 9] = [1, 17, 250, 3, 99, 4, 4, 319, 42];

struct OnDisk {
    _folder: TempDir,
    path: PathBuf,
}

fn on_disk(file: &Gguf) -> OnDisk {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("model.gguf");
    file.write(&path);
    OnDisk { _folder: folder, path }
}

fn open(file: &Gguf) -> Result<Checkpoint, CheckpointError> {
    Checkpoint::open_gguf(&on_disk(file).path, "test")
}

fn refusal(file: &Gguf) -> String {
    let on_disk = on_disk(file);
    let decoder = Checkpoint::open_gguf(&on_disk.path, "test").and_then(|c| c.decoder(&|_, tensor| Ok(tensor)));
    decoder.map(|_| ()).expect_err("refused").to_string()
}

/// Everything the reference computes, as bits.
fn computed(reference: &Reference) -> BTreeMap<String, Vec<u32>> {
    let vocabulary = reference.decoder().architecture().vocabulary as u32;
    let ids = IDS.map(|id| id % vocabulary);
    let capture: Capture = run(reference, &ids, 5, &Scope::ALL);
    let sites = capture.scopes.iter().flat_map(|(scope, captured)| {
        captured.sites.iter().map(move |(site, rows)| {
            let bits = (0..rows.rows()).flat_map(|row| rows.row(row).to_vec()).map(f32::to_bits).collect();
            (format!("{scope:?}/{site}"), bits)
        })
    });
    sites.chain([("generated".to_owned(), capture.generated.clone().unwrap_or_default())]).collect()
}

fn computed_from(file: &Gguf) -> BTreeMap<String, Vec<u32>> {
    let on_disk = on_disk(file);
    let checkpoint = Checkpoint::open_gguf(&on_disk.path, "test").expect("a supported checkpoint");
    computed(&Reference::without_noise(checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete weights")))
}

#[test]
fn a_float32_file_computes_what_its_folder_computes_bit_for_bit() {
    for name in FOLDERS {
        let folder = golden_folder(name);
        let (expected, found) = (computed(&reference(&folder)), computed_from(&from_folder(&folder, None)));
        assert_eq!(expected.keys().collect::<Vec<_>>(), found.keys().collect::<Vec<_>>(), "{name}");
        assert!(expected.len() > 100, "{name}: {} sites", expected.len());
        for (site, bits) in &expected {
            assert!(found[site] == *bits, "{name}: {site} differs");
        }
    }
}

/// 12 query and 3 KV heads: with the goldens' 4 and 2, a K un-permuted by heads / kv heads would go unseen.
fn twelve_to_three() -> TempDir {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = json!({"model_type": "llama", "hidden_size": 48, "intermediate_size": 40, "num_hidden_layers": 2,
        "num_attention_heads": 12, "num_key_value_heads": 3, "head_dim": 8, "vocab_size": 50, "rope_theta": 10000.0,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "tie_word_embeddings": true, "bos_token_id": 1, "eos_token_id": 2});
    fs::write(folder.path().join("config.json"), config.to_string()).expect("writes");
    let mut shapes =
        vec![("model.embed_tokens.weight".to_owned(), vec![50, 48]), ("model.norm.weight".into(), vec![48])];
    for (part, shape) in [
        ("input_layernorm", vec![48]),
        ("post_attention_layernorm", vec![48]),
        ("self_attn.q_proj", vec![96, 48]),
        ("self_attn.k_proj", vec![24, 48]),
        ("self_attn.v_proj", vec![24, 48]),
        ("self_attn.o_proj", vec![48, 96]),
        ("mlp.gate_proj", vec![40, 48]),
        ("mlp.up_proj", vec![40, 48]),
        ("mlp.down_proj", vec![48, 40]),
    ] {
        shapes.extend((0..2).map(|block| (format!("model.layers.{block}.{part}.weight"), shape.clone())));
    }
    let mut state = 7_u64;
    let tensors: Vec<(String, Vec<usize>, Vec<u8>)> = shapes
        .into_iter()
        .map(|(name, shape)| {
            let values = (0..shape.iter().product()).flat_map(|_| pseudo_random(&mut state).to_le_bytes());
            let values = values.collect();
            (name, shape, values)
        })
        .collect();
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (name.as_str(), TensorView::new(Dtype::F32, shape.clone(), bytes).expect("the right size"))
    });
    safetensors::serialize_to_file(views, None, &folder.path().join("model.safetensors")).expect("writes");
    folder
}

/// Between −1 and 1 (Knuth's linear congruential generator).
fn pseudo_random(state: &mut u64) -> f32 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 40) as f32 / (1 << 23) as f32 - 1.0
}

#[test]
fn k_rows_are_ordered_by_the_kv_heads() {
    let folder = twelve_to_three();
    let expected = computed(&reference(folder.path()));
    assert!(computed_from(&from_folder(folder.path(), None)) == expected, "3 kv heads");
    let confused = computed_from(&from_folder(folder.path(), Some(12 / 3)));
    assert!(confused["Base/blocks.0.v"] == expected["Base/blocks.0.v"], "V has no pairs");
    assert!(confused["Base/blocks.0.k"] != expected["Base/blocks.0.k"], "the check sees 4 heads for 3");
}

#[test]
fn the_configuration_is_that_of_the_folder() {
    for name in FOLDERS {
        let folder = Checkpoint::open(&golden_folder(name), "test").expect("supported");
        let file = open(&from_folder(&golden_folder(name), None)).expect("supported");
        // Mistral is converted as a llama, whose arithmetic it has but for the window.
        let model_type = if name.starts_with("mistral") { "llama" } else { &folder.architecture().model_type };
        let expected = Architecture { model_type: model_type.to_owned(), ..folder.architecture().clone() };
        assert_eq!(file.architecture(), &expected, "{name}");
        assert_eq!(file.identity().source, "file:model.gguf");
        assert!(file.warnings().is_empty());
    }
}

fn values(tensor: &Tensor) -> Vec<f32> {
    tensor.flatten_all().expect("flat").to_vec1().expect("float32")
}

fn taken(file: &Gguf, name: &str, shape: &[usize]) -> Vec<f32> {
    let on_disk = on_disk(file);
    values(&WeightFiles::open_gguf(&on_disk.path).expect("opens").take(name, shape).expect("is there"))
}

/// The values are those of llama.cpp's own Python package, see make.py beside the files.
#[test]
fn every_kind_is_dequantised_as_llama_cpp_does() {
    let folder = golden_folder("gguf-kinds");
    let expected = gguf::float32_tensors(&folder.join("expected.safetensors"));
    assert_eq!(expected.len(), 13);
    let mut weights = WeightFiles::open_gguf(&folder.join("kinds.gguf")).expect("opens");
    for (name, (shape, expected)) in expected {
        let found = values(&weights.take(&name, &shape).expect("is there"));
        let different = found.iter().zip(&expected).filter(|(f, e)| f.to_bits() != e.to_bits()).count();
        assert_eq!(
            different,
            0,
            "{name}: of {} values, relative L2 {:.1e}",
            found.len(),
            relative_l2(&expected, &found)
        );
    }
    weights.finish().expect("nothing is left over");
}

#[test]
fn qwen_rows_stay_where_they_are() {
    for (architecture, extra) in [("qwen2", "attn_q.bias"), ("qwen3", "attn_q_norm.weight")] {
        let rows: Vec<f32> = (0..32).map(|row| row as f32).collect();
        let bytes: Vec<u8> = rows.iter().flat_map(|value| value.to_le_bytes()).collect();
        let file = Gguf::new(
            vec![("general.architecture".into(), text_value(architecture))],
            vec![
                Stored::new("blk.11.attn_q.weight", &[1, 32], gguf::F32, bytes.clone()),
                Stored::new(&format!("blk.11.{extra}"), &[32], gguf::F32, bytes),
            ],
        );
        assert_eq!(taken(&file, "model.layers.11.self_attn.q_proj.weight", &[32, 1]), rows);
        let name = if extra == "attn_q.bias" { "q_proj.bias" } else { "q_norm.weight" };
        assert_eq!(taken(&file, &format!("model.layers.11.self_attn.{name}"), &[32]), rows);
    }
}

#[test]
fn missing_and_left_over_tensors_are_called_by_their_name_in_the_file() {
    let folder = golden_folder("llama-gqa");
    let mut file = from_folder(&folder, None);
    file.tensors.retain(|tensor| tensor.name != "blk.1.attn_k.weight");
    assert!(refusal(&file).contains("tensor `blk.1.attn_k.weight` is missing, expected with shape [32, 64]"));
    let mut file = from_folder(&folder, None);
    file.tensors.push(Stored::new("blk.0.attn_q_norm.weight", &[16], gguf::F32, vec![0; 64]));
    file.tensors.push(Stored::new("v.patch_embd.weight", &[16], gguf::F32, vec![0; 64]));
    let message = refusal(&file);
    assert!(message.contains("2 tensors have no place in this architecture: "), "{message}");
    assert!(message.contains("`blk.0.attn_q_norm.weight`") && message.contains("`v.patch_embd.weight`"), "{message}");
    let mut file = from_folder(&folder, None);
    file.set("llama.feed_forward_length", u32_value(175));
    assert!(
        refusal(&file).contains("`blk.0.ffn_gate.weight` has shape [176, 64], expected [175, 64] as its metadata says"),
        "{}",
        refusal(&file)
    );
}

#[test]
fn what_the_metadata_says_beyond_our_reading_is_refused() {
    let with = |key: &str, value: Value| {
        let mut file = from_folder(&golden_folder("llama-gqa"), None);
        file.set(key, value);
        refusal(&file)
    };
    for (key, value, expected) in [
        ("general.architecture", text_value("gemma3"), "`general.architecture` is \"gemma3\", expected \"llama\""),
        (
            "llama.attention.scale",
            Value(6, 0.5_f32.to_le_bytes().to_vec()),
            "`llama.attention.scale` = 0.5 is not a key",
        ),
        ("llama.attention.sliding_window", u32_value(8), "`llama.attention.sliding_window` = 8 is not a key"),
        ("clip.has_vision_encoder", Value(7, vec![1]), "`clip.has_vision_encoder` = true is not a key"),
        ("split.count", Value(2, vec![3, 0]), "`split.count` is 3, expected 1: merge the parts first"),
        ("general.type", text_value("adapter"), "`general.type` is \"adapter\""),
        ("tokenizer.ggml.tokens", list_value(8, 2, &[0; 16]), "`tokenizer.ggml.tokens` is a list of 2 Text"),
        ("llama.vocab_size", u32_value(321), "`llama.vocab_size` is 321, expected 320, the rows of token_embd.weight"),
    ] {
        let message = with(key, value);
        assert!(message.contains(expected), "{key}: {message}");
    }
    let mut file = from_folder(&golden_folder("llama-gqa"), None);
    file.tensors.push(Stored::new("rope_freqs.weight", &[8], gguf::F32, vec![0; 32]));
    assert!(refusal(&file).contains("tensor `rope_freqs.weight` scales RoPE"));
}

#[test]
fn a_tokenizer_beside_the_file_is_used_and_its_absence_explained() {
    let on_disk = on_disk(&from_folder(&golden_folder("llama-gqa"), None));
    let encode = |path: &Path| {
        let checkpoint = Checkpoint::open_gguf(path, "test").map_err(|error| error.to_string())?;
        checkpoint.encode("a b", BosConvention::Never).map_err(|error| error.to_string())
    };
    let message = encode(&on_disk.path).expect_err("no tokenizer");
    assert!(message.contains("model.gguf: there is no tokenizer.json beside it"), "{message}");
    let tokenizer = json!({"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Whitespace"},
        "model": {"type": "WordLevel", "vocab": {"a": 5, "b": 7}, "unk_token": "a"}});
    fs::write(on_disk.path.with_file_name("tokenizer.json"), tokenizer.to_string()).expect("writes");
    assert_eq!(encode(&on_disk.path), Ok(vec![5, 7]));
}
