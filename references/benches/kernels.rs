//! The decoder's forward pass beside the bare matrix products it cannot do without, as Candle does them: prefill of 64 tokens
//! and one step after them, on the demo checkpoint and on a wider one of made-up weights.
#![allow(missing_docs, reason = "the macros of criterion make functions without")]

use std::{collections::BTreeMap, fs, hint::black_box};

use candle_core::{Device, Result, Tensor};
use criterion::{Criterion, criterion_group, criterion_main};
use fidelity_references::{Architecture, Cache, Checkpoint, Chunk, Decoder, Instrument, Part, Visibility, Wiring};
use fidelity_trace::Site;
use safetensors::{Dtype, serialize, tensor::TensorView};
use serde_json::json;

const TOKENS: u32 = 64;

struct NoTaps;

impl Instrument for NoTaps {
    fn at(&mut self, _: Site, _: Part, tensor: Tensor) -> Result<Tensor> {
        Ok(tensor)
    }
}

fn demo() -> Decoder {
    Checkpoint::demo().and_then(|demo| demo.decoder(&|_, tensor| Ok(tensor))).expect("it is compiled in")
}

/// Eight blocks of width 384, heads of 64, a vocabulary of 4096.
fn wider() -> Decoder {
    let (hidden, mlp, blocks, vocabulary) = (384, 1024, 8, 4096);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = json!({"model_type": "llama", "hidden_size": hidden, "intermediate_size": mlp, "num_hidden_layers": blocks,
        "num_attention_heads": 6, "num_key_value_heads": 2, "vocab_size": vocabulary, "tie_word_embeddings": true});
    fs::write(folder.path().join("config.json"), config.to_string()).expect("writes");
    let mut shapes = BTreeMap::from([
        ("model.embed_tokens.weight".to_owned(), vec![vocabulary, hidden]),
        ("model.norm.weight".to_owned(), vec![hidden]),
    ]);
    for block in 0..blocks {
        let parts = [
            ("input_layernorm", vec![hidden]),
            ("self_attn.q_proj", vec![hidden, hidden]),
            ("self_attn.k_proj", vec![hidden / 3, hidden]),
            ("self_attn.v_proj", vec![hidden / 3, hidden]),
            ("self_attn.o_proj", vec![hidden, hidden]),
            ("post_attention_layernorm", vec![hidden]),
            ("mlp.gate_proj", vec![mlp, hidden]),
            ("mlp.up_proj", vec![mlp, hidden]),
            ("mlp.down_proj", vec![hidden, mlp]),
        ];
        shapes.extend(parts.map(|(name, shape)| (format!("model.layers.{block}.{name}.weight"), shape)));
    }
    let bytes: BTreeMap<_, Vec<u8>> = shapes.iter().map(|(name, shape)| (name, made_up(shape))).collect();
    let view = |(name, shape): (&String, &Vec<usize>)| {
        (name.clone(), TensorView::new(Dtype::F32, shape.clone(), &bytes[name]).expect("it fits"))
    };
    let file = serialize(shapes.iter().map(view), None).expect("small");
    fs::write(folder.path().join("model.safetensors"), file).expect("writes");
    let checkpoint = Checkpoint::open(folder.path(), "wider").expect("supported");
    checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete")
}

/// Values in ±√(3 / inputs), which keep the residual stream's size.
fn made_up(shape: &[usize]) -> Vec<u8> {
    let scale = (3.0 / *shape.last().expect("no scalars") as f32).sqrt();
    let mut state = 1_u32;
    let value = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        scale * (f64::from(state) / f64::from(u32::MAX) * 2.0 - 1.0) as f32
    };
    (0..shape.iter().product::<usize>()).map(value).flat_map(f32::to_le_bytes).collect()
}

/// What a pass over `rows` rows multiplies: inputs and weights, turned as a linear layer turns them.
fn products(a: &Architecture, rows: usize) -> Vec<(Tensor, Tensor)> {
    let (queries, keys) = (a.query_heads * a.head_dim, a.kv_heads * a.head_dim);
    let block = [
        (a.hidden, queries),
        (a.hidden, keys),
        (a.hidden, keys),
        (queries, a.hidden),
        (a.hidden, a.mlp),
        (a.hidden, a.mlp),
    ];
    let all = (0..a.blocks).flat_map(|_| block.into_iter().chain([(a.mlp, a.hidden)]));
    let tensor = |shape: (usize, usize)| Tensor::randn(0_f32, 1.0, shape, &Device::Cpu);
    let pair = |(input, out)| Ok((tensor((rows, input))?, tensor((out, input))?.t()?));
    all.chain([(a.hidden, a.vocabulary)]).map(pair).collect::<Result<_>>().expect("memory")
}

fn forward(decoder: &Decoder, cache: Option<&mut Cache>, positions: std::ops::Range<u32>) -> Tensor {
    let positions: Vec<u32> = positions.collect();
    let token_ids: Vec<u32> = positions.iter().map(|position| position * 7 % 500).collect();
    let chunk = Chunk { token_ids: &token_ids, positions: &positions, visibility: Visibility::Causal };
    decoder.forward(&chunk, cache, &Wiring::default(), &mut NoTaps).expect("computes")
}

fn passes(criterion: &mut Criterion) {
    for (name, decoder) in [("demo", demo()), ("wider", wider())] {
        let multiply = |rows: usize| {
            let pairs = products(decoder.architecture(), rows);
            move || pairs.iter().for_each(|(x, w)| drop(black_box(x.matmul(w).expect("they fit"))))
        };
        let mut group = criterion.benchmark_group(format!("prefill {name}"));
        group.bench_function("decoder", |bencher| bencher.iter(|| forward(&decoder, None, 0..TOKENS)));
        group.bench_function("Candle's products alone", |bencher| bencher.iter(multiply(TOKENS as usize)));
        group.finish();
        let mut group = criterion.benchmark_group(format!("step {name}"));
        let mut cache = Cache::new(&decoder, TOKENS as usize + 1).expect("memory");
        forward(&decoder, Some(&mut cache), 0..TOKENS);
        group.bench_function("decoder", |bencher| {
            bencher.iter(|| {
                cache.truncate(TOKENS as usize);
                forward(&decoder, Some(&mut cache), TOKENS..TOKENS + 1)
            });
        });
        group.bench_function("Candle's products alone", |bencher| bencher.iter(multiply(1)));
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = passes
}
criterion_main!(benches);
