//! Each operation and its gradient against the same thing composed from Candle's plain operations.

use candle_core::{D, Device, Result, Tensor, Var};

use super::{causal_softmax, log_softmax, normalise, rotate, silu};

const TOLERANCE: f32 = 2e-5;

/// Two batches, two heads, six positions, width 16.
const SHAPE: (usize, usize, usize, usize) = (2, 2, 6, 16);

#[test]
fn normalise_is_rms_norm_without_weight() -> Result<()> {
    agree(
        SHAPE,
        |x| normalise(x, 1e-5),
        |x| {
            let mean_square = x.sqr()?.mean_keepdim(D::Minus1)?;
            x.broadcast_div(&(mean_square + 1e-5)?.sqrt()?)
        },
    )
}

#[test]
fn rotate_is_rope_in_half_split_pairing() -> Result<()> {
    let frequency = |pair: usize| 10_000_f32.powf(-(pair as f32) / 8.0);
    let angles: Vec<f32> = (0..48).map(|at| (at / 8) as f32 * frequency(at % 8)).collect();
    let angles = Tensor::from_vec(angles, (6, 8), &Device::Cpu)?;
    let (cos, sin) = (angles.cos()?, angles.sin()?);
    agree(SHAPE, |x| rotate(x, 10_000.0), |x| candle_nn::rotary_emb::rope_slow(x, &cos, &sin))
}

#[test]
fn causal_softmax_is_softmax_under_a_mask() -> Result<()> {
    // Two stacked blocks of six positions.
    let hidden = (0..12 * 6).map(|at| if at % 6 > at / 6 % 6 { f32::NEG_INFINITY } else { 0.0 }).collect();
    let mask = Tensor::from_vec(hidden, (12, 6), &Device::Cpu)?;
    agree(
        (2, 2, 12, 6),
        |x| causal_softmax(x, 0.25),
        |x| candle_nn::ops::softmax(&(x * 0.25)?.broadcast_add(&mask)?, D::Minus1),
    )
}

#[test]
fn silu_is_candles_silu() -> Result<()> {
    agree(SHAPE, silu, Tensor::silu)
}

#[test]
fn log_softmax_is_candles_log_softmax() -> Result<()> {
    agree(SHAPE, log_softmax, |x| candle_nn::ops::log_softmax(x, D::Minus1))
}

/// Compares values, and gradients of a fixed random combination of the values.
fn agree(
    shape: (usize, usize, usize, usize),
    ours: impl Fn(&Tensor) -> Result<Tensor>,
    plain: impl Fn(&Tensor) -> Result<Tensor>,
) -> Result<()> {
    let count = shape.0 * shape.1 * shape.2 * shape.3;
    let wave = |step: f32| (0..count).map(|at| 2.0 * (at as f32 * step).sin()).collect::<Vec<f32>>();
    let x = Var::from_vec(wave(0.7), shape, &Device::Cpu)?;
    let combination = Tensor::from_vec(wave(1.3), shape, &Device::Cpu)?;
    let (our_value, plain_value) = (ours(&x)?, plain(&x)?);
    assert_close(&our_value, &plain_value)?;
    let gradient = |value: &Tensor| -> Result<Tensor> {
        let gradients = (value * &combination)?.sum_all()?.backward()?;
        Ok(gradients.get(&x).expect("x is a variable of the value").clone())
    };
    assert_close(&gradient(&our_value)?, &gradient(&plain_value)?)
}

fn assert_close(left: &Tensor, right: &Tensor) -> Result<()> {
    let largest = (left - right)?.abs()?.max_all()?.to_scalar::<f32>()?;
    assert!(largest < TOLERANCE, "differs by {largest}");
    Ok(())
}
