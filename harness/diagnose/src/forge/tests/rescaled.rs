//! Factors on channels: the same function, and the channel is where it was asked for.

use std::collections::BTreeMap;

use candle_core::DType;
use fidelity_trace::BlockSite;

use super::*;

struct Everything(BTreeMap<Site, Vec<f64>>);

impl Instrument for Everything {
    fn at(&mut self, site: Site, _: Part, tensor: Tensor) -> candle_core::Result<Tensor> {
        self.0.entry(site).or_default().extend(tensor.flatten_all()?.to_dtype(DType::F64)?.to_vec1::<f64>()?);
        Ok(tensor)
    }
}

fn sites(checkpoint: &Checkpoint) -> BTreeMap<Site, Vec<f64>> {
    let decoder = checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete").to_float64();
    let positions: Vec<u32> = (0..IDS.len() as u32).collect();
    let chunk = Chunk { token_ids: &IDS, positions: &positions, visibility: Visibility::Causal };
    let mut seen = Everything(BTreeMap::new());
    decoder.forward(&chunk, None, &Wiring::default(), &mut seen).expect("computes");
    seen.0
}

fn outlier(text: &str) -> Step {
    Step::Outlier(text.parse().expect("an outlier"))
}

/// How a channel of a site differs from the source's, as one factor; `None` where it is not one.
fn factor(source: &[f64], forged: &[f64], channel: usize) -> Option<f64> {
    let width = source.len() / IDS.len();
    let of = |values: &[f64]| values.iter().skip(channel).step_by(width).copied().collect::<Vec<_>>();
    let ratios: Vec<f64> = of(source).iter().zip(of(forged)).map(|(one, other)| other / one).collect();
    ratios.iter().all(|ratio| (ratio - ratios[0]).abs() < 1e-4 * ratios[0].abs()).then_some(ratios[0])
}

#[test]
fn a_channel_is_larger_where_it_was_asked_for_and_the_function_is_the_same() {
    use BlockSite::{Act, AttnNorm, K, MlpNorm, Q, Up, V, Z};
    for name in RMS {
        let source = golden(name);
        let before = sites(&source);
        let turned = if source.architecture().qk_norm { &[][..] } else { &[Q, K][..] };
        for kind in [AttnNorm, MlpNorm, Up, Act, V, Z].iter().chain(turned) {
            for (given, wanted) in [("64", 64.0), ("-0.3", -0.3)] {
                let step = outlier(&format!("blocks.1.{}=3x{given}", kind.name()));
                let (read, off, _desk) = forged_of(&source, std::slice::from_ref(&step));
                assert!(off < 1e-6 && (given != "64" || off < 1e-12), "{name} {step}: {off}");
                let after = sites(&read);
                let (here, other) = (Site::Block(1, *kind), Site::Block(0, *kind));
                let found = factor(&before[&here], &after[&here], 3).expect("one factor");
                assert!((found / wanted - 1.0).abs() < 1e-4, "{name} {step}: {found}");
                let width = before[&here].len() / IDS.len();
                let moved = (0..width).filter(|channel| {
                    factor(&before[&here], &after[&here], *channel).is_none_or(|factor| (factor - 1.0).abs() > 1e-4)
                });
                let a = source.architecture();
                let most = if matches!(kind, Q | K | Z) { 2 * a.query_heads / a.kv_heads } else { 1 };
                assert!((1..=most).contains(&moved.count()), "{name} {step}");
                assert!(
                    distance(&before[&other], &after[&other]) < 1e-6,
                    "{name} {step}: other blocks are as they were"
                );
            }
        }
        let every = forged_of(&source, &[outlier("act=3x64")]);
        for block in 0..source.architecture().blocks as u32 {
            let site = Site::Block(block, Act);
            let found = factor(&before[&site], &sites(&every.0)[&site], 3).expect("one factor");
            assert!((found / 64.0 - 1.0).abs() < 1e-4, "{name}: {found}");
        }
        let (last, off, _desk) = forged_of(&source, &[outlier("final_norm=2*8")]);
        assert!(off < 1e-12 && !last.architecture().tied_head, "{name}: {off}");
        assert!(
            factor(&before[&Site::FinalNorm], &sites(&last)[&Site::FinalNorm], 2)
                .is_some_and(|it| (it - 8.0).abs() < 1e-4)
        );
    }
    let (source, desk) = (golden("qwen2"), desk());
    let all = [
        outlier("final_norm=2x8"),
        outlier("v=1x4"),
        Step::Vocab(700),
        Step::Widen(90),
        outlier("final_norm=80x2"),
        Step::HeadsMha,
        outlier("z=5x0.5"),
        Step::HeadDim(2),
        Step::Calm(vec![IDS.to_vec()]),
        Step::Rotate(3),
        outlier("act=0x16"),
    ];
    forge(&source, &all, &desk.path().join("forged")).expect("they combine");
}

#[test]
fn calm_takes_an_outlier_off_again() {
    for name in RMS {
        let source = golden(name);
        let wild = [
            outlier("act=3x4096"),
            outlier("attn_norm=5x1024"),
            outlier("mlp_norm=1x0.0009765625"),
            outlier("v=2x512"),
        ];
        let spread = |checkpoint: &Checkpoint, kind: BlockSite| {
            let values = &sites(checkpoint)[&Site::Block(1, kind)];
            let width = values.len() / IDS.len();
            let largest = |channel| values.iter().skip(channel).step_by(width).fold(0.0, |a: f64, b| a.max(b.abs()));
            let all: Vec<f64> = (0..width).map(largest).filter(|largest| *largest > 0.0).collect();
            all.iter().copied().fold(0.0, f64::max) / all.iter().copied().fold(f64::INFINITY, f64::min)
        };
        let calm = Step::Calm(vec![IDS.to_vec(), IDS[..5].to_vec()]);
        let (before, off, _one) = forged_of(&source, &wild);
        assert!(off < 1e-12, "{name}: powers of two round nothing: {off}");
        let (after, off, _two) = forged_of(&source, &[&wild[..], &[calm]].concat());
        assert!(off < 1e-12, "{name}: {off}");
        for kind in [BlockSite::Act, BlockSite::AttnNorm, BlockSite::MlpNorm] {
            assert!(spread(&before, kind) > 500.0 && spread(&after, kind) < 2.01, "{name} {kind:?}");
        }
        // A kv channel serves several query heads, the largest of which decides.
        assert!(spread(&after, BlockSite::Z) < spread(&before, BlockSite::Z) / 8.0, "{name}");
    }
    assert!(refusal("gpt2", &[Step::Calm(vec![IDS.to_vec()])]).contains("LayerNorm"));
    assert!(refusal("qwen3", &[Step::Calm(vec![vec![u32::MAX]])]).contains("--calibration"));
}

#[test]
fn where_no_weight_takes_a_factor_off_again_it_is_said_why_and_what_is_nearest() {
    for (name, asked, said) in [
        ("llama-gqa", "resid_post=0x64", "the nearest are attn_norm"),
        ("llama-gqa", "embed=0x64", "the nearest are attn_norm"),
        ("llama-gqa", "blocks.0.mlp_out=0x64", "root mean square"),
        ("llama-gqa", "scores=0x64", "softmax is not linear"),
        ("llama-gqa", "gate=0x64", "0.278"),
        ("llama-gqa", "logits=0x64", "final_norm"),
        ("qwen3", "q=0x64", "all heads share"),
        ("gpt2", "act=0x64", "LayerNorm"),
        ("llama-gqa", "act=100000x64", "channels there"),
        ("llama-gqa", "z=100000x64", "channels there"),
        ("llama-gqa", "final_norm=100000x64", "channels there"),
        ("llama-gqa", "blocks.9.act=1x64", "counted from 0"),
    ] {
        let error = refusal(name, &[outlier(asked)]);
        assert!(error.contains(said), "{asked}: {error}");
    }
}

#[test]
fn a_factor_that_is_not_taken_off_again_is_not_proven() {
    fn forgotten(mut draft: Draft) -> Draft {
        draft.tensors = Box::new(Scaled(draft.tensors, |part| if part == Named::Down { 64.0 } else { 1.0 }));
        draft
    }
    for step in ["act=3x64", "v=3x64", "attn_norm=3x64"] {
        let desk = desk();
        let broken = Broken { first: outlier(step), then: forgotten };
        let refused = transformed(&golden("llama-gqa"), &[&broken], &desk.path().join("forged"));
        assert!(matches!(refused, Err(ForgeError::NotProven { .. })), "{step}: {refused:?}");
    }
}
