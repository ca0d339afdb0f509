//! Every transformation on tiny checkpoints, and transformations that are wrong, which must not pass.

mod rescaled;
mod vocab;

use std::{fs, path::PathBuf};

use candle_core::Tensor;
use fidelity_references::{Checkpoint, Chunk, Instrument, Part, Visibility, Wiring};
use fidelity_trace::Site;
use tempfile::TempDir;

use super::{
    rotate::Rotate,
    tensors::{Part as Named, Tensors, Values},
    *,
};

/// With RMSNorm, of each family and dialect, tied and untied, with biases, with norms of queries and keys.
const RMS: [&str; 9] = [
    "llama-gqa",
    "llama-mha-tied",
    "llama-bias",
    "llama-head-dim",
    "llama-rope-llama3",
    "mistral-window",
    "qwen2-window",
    "qwen3",
    "smollm3",
];
const IDS: [u32; 12] = [1, 5, 9, 200, 31, 77, 12, 300, 4, 8, 0, 250];

fn golden(name: &str) -> Checkpoint {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../references/tests/goldens").join(name);
    Checkpoint::open(&folder, name).expect("a golden")
}

/// A golden with an epsilon so large that norms without the right one are far off.
fn with_large_epsilon(name: &str) -> (Checkpoint, TempDir) {
    let desk = desk();
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../references/tests/goldens").join(name);
    fs::copy(folder.join("model.safetensors"), desk.path().join("model.safetensors")).expect("copies");
    let config = fs::read(folder.join("config.json")).expect("a golden");
    let mut config: serde_json::Value = serde_json::from_slice(&config).expect("JSON");
    config["rms_norm_eps"] = 0.5.into();
    fs::write(desk.path().join("config.json"), config.to_string()).expect("writes");
    (Checkpoint::open(desk.path(), name).expect("a checkpoint"), desk)
}

struct Untouched;

impl Instrument for Untouched {
    fn at(&mut self, _: Site, _: Part, tensor: Tensor) -> candle_core::Result<Tensor> {
        Ok(tensor)
    }
}

/// Logits in float64, computed apart from the proof.
fn logits(checkpoint: &Checkpoint, blocks: Option<&[usize]>) -> Vec<f64> {
    let decoder = checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete").to_float64();
    let decoder = blocks.map_or_else(|| decoder.clone(), |blocks| decoder.through(blocks));
    let positions: Vec<u32> = (0..IDS.len() as u32).collect();
    let chunk = Chunk { token_ids: &IDS, positions: &positions, visibility: Visibility::Causal };
    let logits = decoder.forward(&chunk, None, &Wiring::default(), &mut Untouched).expect("computes");
    logits.flatten_all().and_then(|flat| flat.to_vec1()).expect("float64")
}

fn distance(one: &[f64], other: &[f64]) -> f64 {
    assert_eq!(one.len(), other.len());
    let error: f64 = one.iter().zip(other).map(|(a, b)| (a - b).powi(2)).sum();
    (error / one.iter().map(|a| a.powi(2)).sum::<f64>()).sqrt()
}

/// Forges, reads what was written, and says how far its logits are.
fn forged(name: &str, steps: &[Step]) -> (Checkpoint, f64) {
    let (read, off, _) = forged_of(&golden(name), steps);
    (read, off)
}

fn forged_of(source: &Checkpoint, steps: &[Step]) -> (Checkpoint, f64, TempDir) {
    let (name, desk) = (&source.identity().name, desk());
    let out = desk.path().join("forged");
    let forging = forge(source, steps, &out).unwrap_or_else(|error| panic!("{name} {steps:?}: {error}"));
    let read = Checkpoint::open(&out, "forged").expect("a checkpoint");
    let off = distance(&logits(source, None), &logits(&read, None));
    assert!(out.join("forge.json").is_file() && forging.sites.iter().any(|proof| proof.site == Site::Logits));
    (read, off, desk)
}

fn desk() -> TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn refusal(name: &str, steps: &[Step]) -> String {
    let desk = desk();
    let error = forge(&golden(name), steps, &desk.path().join("forged")).expect_err("refused").to_string();
    assert_eq!(fs::read_dir(desk.path()).expect("there").count(), 0, "nothing is left: {error}");
    error
}

#[test]
fn wider_networks_compute_the_same() {
    for name in RMS {
        let (source, _desk) = with_large_epsilon(name);
        let hidden = source.architecture().hidden;
        let beyond = if source.architecture().model_type == "llama" { source.architecture().query_heads } else { 1 };
        for to in [hidden, hidden + beyond, 3 * hidden, 4 * hidden] {
            let (read, off, _) = forged_of(&source, &[Step::Widen(to)]);
            assert!(off < 1e-6, "{name} {to}: {off}");
            let (wide, old) = (read.architecture(), source.architecture());
            assert_eq!((wide.hidden, wide.head_dim, wide.tied_head), (to, old.head_dim, old.tied_head), "{name}");
            let share = hidden as f64 / to as f64;
            assert!((wide.norm_eps / old.norm_eps / share - 1.0).abs() < 1e-12, "{name}");
        }
        // √(1/4) is exact, so that nothing is rounded.
        assert!(forged_of(&source, &[Step::Widen(4 * hidden)]).1 < 1e-12, "{name}");
    }
    assert!(refusal("llama-gqa", &[Step::Widen(8)]).contains("only more channels"));
    assert!(refusal("llama-gqa", &[Step::Widen(97)]).contains("a multiple of its"));
    assert!(refusal("gpt2", &[Step::Widen(512)]).contains("LayerNorm"));
    assert!(refusal("llama-gqa", &[Step::Widen(1 << 27)]).contains("more than the"));
    assert!(refusal("llama-gqa", &[Step::Widen(usize::MAX - 7)]).contains("more than the"));
}

#[test]
fn rotated_networks_compute_the_same() {
    for name in RMS {
        let source = golden(name);
        let wider = source.architecture().hidden + 3 * source.architecture().query_heads;
        for steps in [vec![Step::Rotate(7)], vec![Step::Widen(wider), Step::Rotate(7)]] {
            let (read, off) = forged(name, &steps);
            assert!(off < 1e-5 && !read.architecture().tied_head, "{name} {steps:?}: {off}");
        }
    }
    // What was zero beside the stream is not any more, and every seed has its own.
    let embedding = |seed| {
        let (read, _, _desk) = forged_of(&golden("llama-gqa"), &[Step::Widen(96), Step::Rotate(seed)]);
        let shape = [read.architecture().vocabulary, 96];
        let table = read.weights().and_then(|mut files| files.take("model.embed_tokens.weight", &shape));
        table.expect("there").flatten_all().and_then(|flat| flat.to_vec1::<f32>()).expect("float32")
    };
    let one = embedding(1);
    assert!(one.iter().filter(|value| value.abs() < 1e-12).count() < one.len() / 100);
    assert_ne!(one, embedding(2));
    assert!(refusal("gpt2", &[Step::Rotate(1)]).contains("LayerNorm"));
}

#[test]
fn wider_heads_compute_the_same() {
    for name in RMS.into_iter().chain(["llama-rope-linear"]) {
        let (source, _desk) = with_large_epsilon(name);
        for times in [1, 2, 3, 4] {
            let (read, off, _) = forged_of(&source, &[Step::HeadDim(times)]);
            assert!(off < 1e-6, "{name} {times}: {off}");
            assert_eq!(read.architecture().head_dim, times * source.architecture().head_dim, "{name}");
        }
        assert!(forged_of(&source, &[Step::HeadDim(4)]).1 < 1e-12, "{name}");
    }
    let (source, desk) = (golden("qwen2"), desk());
    let all = [Step::HeadsMha, Step::HeadDim(2), Step::Widen(90), Step::Rotate(3), Step::Skip(1)];
    forge(&source, &all, &desk.path().join("forged")).expect("they combine");
    let read = Checkpoint::open(&desk.path().join("forged"), "forged").expect("a checkpoint");
    let kept: Vec<usize> = (0..source.architecture().blocks).filter(|block| *block != 1).collect();
    let off = distance(&logits(&source, Some(&kept)), &logits(&read, None));
    assert!(off < 1e-5, "{off}");
    for (name, steps) in [("llama-rope-dynamic", 2), ("llama-rope-yarn", 2)] {
        assert!(refusal(name, &[Step::HeadDim(steps)]).contains("RoPE scaling"), "{name}");
    }
    assert!(refusal("gpt2", &[Step::HeadDim(2)]).contains("hidden size divided by"));
    assert!(refusal("qwen3", &[Step::HeadDim(usize::MAX)]).contains("more than"));
    assert!(refusal("qwen3", &[Step::HeadDim(0)]).contains("from 1"));
}

#[test]
fn heads_and_heads_of_their_own_are_copies() {
    for name in RMS {
        let source = golden(name);
        let a = source.architecture();
        if a.kv_heads < a.query_heads {
            let (read, off) = forged(name, &[Step::HeadsMha]);
            assert!(off < 1e-12 && read.architecture().kv_heads == a.query_heads, "{name}: {off}");
        } else {
            assert!(refusal(name, &[Step::HeadsMha]).contains("has its own already"));
        }
    }
    for name in ["llama-mha-tied", "qwen3", "gpt2"] {
        let (read, off) = forged(name, &[Step::Untie]);
        assert!(off < 1e-12 && !read.architecture().tied_head, "{name}: {off}");
        assert!(forged(name, &[Step::Untie, Step::Tie]).0.architecture().tied_head, "{name}");
        assert!(refusal(name, &[Step::Tie]).contains("already"));
    }
    assert!(refusal("llama-gqa", &[Step::Tie]).contains("differs from its embedding in"));
    assert!(refusal("llama-gqa", &[Step::Untie]).contains("already"));
}

#[test]
fn fewer_blocks_compute_what_those_blocks_do() {
    for name in RMS.into_iter().chain(["gpt2", "gpt2-inverse", "llama-rope-yarn", "llama-rope-dynamic"]) {
        let source = golden(name);
        let blocks = source.architecture().blocks;
        let mut asked: Vec<(Vec<Step>, Vec<usize>)> =
            (1..=blocks).map(|depth| (vec![Step::Depth(depth)], (0..depth).collect())).collect();
        let skipped = |block| (0..blocks).filter(move |kept| *kept != block).collect();
        if name != "gpt2-inverse" {
            asked.extend((0..blocks).map(|block| (vec![Step::Skip(block)], skipped(block))));
            asked.push((vec![Step::Skip(0), Step::Skip(0)], (2..blocks).collect()));
        }
        for (steps, kept) in asked.into_iter().filter(|(_, kept)| !kept.is_empty()) {
            let desk = desk();
            let out = desk.path().join("forged");
            let forging = forge(&source, &steps, &out).unwrap_or_else(|error| panic!("{name} {steps:?}: {error}"));
            let read = Checkpoint::open(&out, "forged").expect("a checkpoint");
            let off = distance(&logits(&source, Some(&kept)), &logits(&read, None));
            assert!(off < 1e-12, "{name} {steps:?}: {off}");
            let layers: Vec<_> = kept.iter().map(|block| source.architecture().layers[*block]).collect();
            assert_eq!(read.architecture().layers, layers, "{name} {steps:?}");
            assert_eq!(forging.sites.len(), 3 + 2 * kept.len(), "{name}");
        }
    }
    assert!(refusal("llama-gqa", &[Step::Depth(0)]).contains("from 1 to"));
    assert!(refusal("llama-gqa", &[Step::Depth(99)]).contains("from 1 to"));
    assert!(refusal("llama-gqa", &[Step::Skip(99)]).contains("counted from 0"));
    assert!(refusal("llama-gqa", &[Step::Depth(1), Step::Skip(0)]).contains("only block"));
    assert!(refusal("gpt2-inverse", &[Step::Skip(0)]).contains("scale_attn_by_inverse_layer_idx"));
}

#[test]
fn an_encoder_and_a_folder_that_is_there_are_refused() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../references/tests/goldens/bert");
    let bert = Checkpoint::open(&folder, "bert").expect("a golden");
    let desk = desk();
    let error = forge(&bert, &[Step::Depth(1)], &desk.path().join("x")).expect_err("refused").to_string();
    assert!(error.contains("encoder"), "{error}");
    let error = forge(&golden("qwen3"), &[], desk.path()).expect_err("refused").to_string();
    assert!(error.contains("exists already"), "{error}");
}

/// A transformation, and then something that makes it wrong.
struct Broken {
    first: Step,
    then: fn(Draft) -> Draft,
}

impl Transformation for Broken {
    fn apply(&self, draft: Draft) -> Result<Draft, ForgeError> {
        Ok((self.then)(self.first.transformation().apply(draft)?))
    }

    fn name(&self) -> String {
        "--broken".into()
    }
}

/// Tensors of one part times a factor.
struct Scaled(Box<dyn Tensors>, fn(Named) -> f64);

impl Tensors for Scaled {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        self.0.shapes()
    }

    fn read(&mut self, name: &str) -> Result<Values, ForgeError> {
        Ok(self.0.read(name)?.scaled((self.1)(Named::of(name))))
    }
}

/// Key and value heads tiled, not repeated.
struct Tiled(Box<dyn Tensors>, usize);

impl Tensors for Tiled {
    fn shapes(&self) -> Vec<(String, Vec<usize>)> {
        self.0.shapes()
    }

    fn read(&mut self, name: &str) -> Result<Values, ForgeError> {
        let values = self.0.read(name)?;
        let (rows, half) = (values.shape[0], values.shape[0] / 2);
        let width = self.1;
        let tile = |row: usize| Some((2 * (row / width % (half / width))) * width + row % width);
        Ok(if Named::of(name) == Named::K { values.gathered(rows, tile) } else { values })
    }
}

#[test]
fn what_is_wrong_is_not_written() {
    // Functions, since a transformation holds no closure.
    fn eps_kept(mut draft: Draft) -> Draft {
        draft.architecture.norm_eps *= 2.0;
        draft.set("rms_norm_eps", draft.architecture.norm_eps);
        draft
    }
    fn other_theta(mut draft: Draft) -> Draft {
        let rope = draft.architecture.rope.as_mut().expect("it has RoPE");
        rope.theta = 20_000.0;
        draft.config.remove("rope_parameters");
        draft.set("rope_theta", 20_000.0);
        draft
    }
    fn config_alone(mut draft: Draft) -> Draft {
        draft.set("num_hidden_layers", 1);
        draft
    }
    fn norm_scale_forgotten(mut draft: Draft) -> Draft {
        draft.tensors = Box::new(Scaled(draft.tensors, |part| if part.norms_stream() { 2.0_f64.sqrt() } else { 1.0 }));
        draft
    }
    fn keys_not_scaled(mut draft: Draft) -> Draft {
        draft.tensors = Box::new(Scaled(draft.tensors, |part| if part == Named::K { 2.0_f64.sqrt() } else { 1.0 }));
        draft
    }
    fn a_thousandth_off(mut draft: Draft) -> Draft {
        draft.tensors = Box::new(Scaled(draft.tensors, |part| if part == Named::Down { 1.001 } else { 1.0 }));
        draft
    }
    fn wrong_seed(mut draft: Draft) -> Draft {
        draft.relation.stream = Rotate(8).apply(draft_of("llama-gqa")).expect("rotates").relation.stream;
        draft
    }
    fn tiled(mut draft: Draft) -> Draft {
        let width = draft.architecture.head_dim;
        draft.tensors = Box::new(Tiled(draft.tensors, width));
        draft
    }
    fn draft_of(name: &str) -> Draft {
        Draft::of(&golden(name), &PathBuf::from("out")).expect("a draft")
    }
    let hidden = golden("llama-gqa").architecture().hidden;
    let qwen = golden("qwen3").architecture().hidden;
    type Mistake = fn(Draft) -> Draft;
    let wrong: [(&str, Step, Mistake); 9] = [
        ("llama-gqa", Step::Widen(2 * hidden), eps_kept),
        ("llama-gqa", Step::Widen(2 * hidden), norm_scale_forgotten),
        ("qwen3", Step::Widen(2 * qwen), keys_not_scaled),
        ("llama-gqa", Step::Rotate(7), a_thousandth_off),
        ("llama-gqa", Step::Rotate(7), wrong_seed),
        ("llama-gqa", Step::HeadsMha, other_theta),
        ("llama-gqa", Step::HeadsMha, tiled),
        ("llama-gqa", Step::Depth(2), a_thousandth_off),
        ("llama-gqa", Step::Depth(2), config_alone),
    ];
    for (index, (name, first, then)) in wrong.into_iter().enumerate() {
        let desk = desk();
        let broken = Broken { first, then };
        let (source, _large) = with_large_epsilon(name);
        let refused = transformed(&source, &[&broken], &desk.path().join("forged"));
        match refused {
            Err(ForgeError::NotProven { relative_l2, tolerance, .. }) => assert!(relative_l2 > tolerance, "{index}"),
            Err(ForgeError::Inexpressible { .. } | ForgeError::Checkpoint(_)) if index == 8 => {}
            other => panic!("{index} {name}: {other:?}"),
        }
        assert_eq!(fs::read_dir(desk.path()).expect("there").count(), 0, "{index}: nothing is left");
    }
}
