//! What the commands of a recipe ask for. A command is emulated, has no effect on numbers, or is recorded as not emulated.

use super::{
    arguments::{Arguments, unknown, wrong},
    error::{Fault, Problem},
    precision::Precision,
    script::{Body, Call, Spanned, Statement, Value},
};

/// One thing that a recipe decides, in the order of its lines: later ones win.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Setting {
    /// `name = [layers]`
    Group {
        name: String,
        layers: Spanned<Value>,
    },
    Precision {
        layers: Spanned<Value>,
        mode: Option<Precision>,
        weight_group: Option<Spanned<usize>>,
    },
    BiasCorrection {
        on: bool,
        layers: Option<Spanned<Value>>,
    },
    Equalization {
        on: bool,
        layers: Option<Spanned<Value>>,
    },
    /// Activation ranges between two percentiles in place of minimum and maximum.
    ActivationClipping {
        on: bool,
        layers: Option<Spanned<Value>>,
        percentiles: (f64, f64),
    },
    Rotation {
        on: bool,
    },
    CalibrationPrompts(usize),
    NotEmulated(String),
}

const COMMANDS: [&str; 7] = [
    "quantization_param",
    "pre_quantization_optimization",
    "post_quantization_optimization",
    "model_optimization_flavor",
    "model_optimization_config",
    "set_kv_cache_global_params",
    "set_input_mask_to_softmax",
];

/// Commands that place a graph on the chip and change no number.
const PLACING: [&str; 7] = [
    "allocator_param",
    "compilation_param",
    "context_switch_param",
    "network_group",
    "performance_param",
    "platform_param",
    "resources_param",
];

const PRE_FEATURES: [&str; 12] = [
    "activation_clipping",
    "conv_decomposition",
    "dead_channels_removal",
    "equalization",
    "ew_add_fusing",
    "layer_norm_decomposition",
    "llm_modifications",
    "matmul_correction",
    "matmul_equalization",
    "quarot",
    "smart_softmax_stats",
    "weights_clipping",
];

const POST_FEATURES: [&str; 4] = ["adaround", "bias_correction", "finetune", "mix_precision_search"];

const TOPICS: [&str; 5] = ["calibration", "checker_cfg", "compression_params", "globals", "negative_exponent"];

/// What the lines of a script decide.
pub(crate) fn settings(statements: &[Statement]) -> Result<Vec<Setting>, Problem> {
    let mut settings = Vec::new();
    for statement in statements {
        match &statement.body {
            Body::Value(layers) => settings.extend(
                statement.names.iter().map(|name| Setting::Group { name: name.value.clone(), layers: layers.clone() }),
            ),
            Body::Call(call) => settings.extend(command(call)?),
        }
    }
    Ok(settings)
}

fn command(call: &Call) -> Result<Vec<Setting>, Problem> {
    let mut arguments = Arguments::of(call);
    match call.command.value.as_str() {
        "quantization_param" => quantization_param(arguments),
        "pre_quantization_optimization" => pre_quantization(arguments),
        "post_quantization_optimization" => post_quantization(arguments),
        "model_optimization_flavor" => flavor(arguments),
        "model_optimization_config" => config(arguments),
        "set_kv_cache_global_params" => {
            // The run's own lengths change nothing here; others would, where a run is longer.
            let lengths = [arguments.take("prefill"), arguments.take("cache")];
            arguments.finish("it takes prefill and cache", &["prefill", "cache"])?;
            let own = ["prefill", "cache"].map(|name| Value::Word(name.to_owned()));
            let all_own = lengths.iter().flatten().all(|length| own.contains(&length.value));
            let said = "set_kv_cache_global_params (the emulator's cache is as long as the run)";
            Ok(if all_own { Vec::new() } else { vec![Setting::NotEmulated(said.to_owned())] })
        }
        "set_input_mask_to_softmax" => {
            arguments.rest();
            Ok(vec![Setting::NotEmulated("set_input_mask_to_softmax".to_owned())])
        }
        name if PLACING.contains(&name) => Ok(Vec::new()),
        _ => Err(unknown("command of LLM recipes", &call.command, &COMMANDS)),
    }
}

fn quantization_param(mut arguments: Arguments) -> Result<Vec<Setting>, Problem> {
    let layers = arguments
        .take("layers")
        .ok_or_else(|| arguments.missing("layers first: a name, [names], {pattern} or {role}"))?;
    let mode = arguments.parsed("precision_mode", Precision::EXPECTED)?;
    let weight_group = match arguments.take_named("weight_group_size") {
        None => None,
        Some(found) => {
            let size = match &found.value {
                Value::Word(word) => word.parse().ok().filter(|size: &usize| *size > 0),
                Value::Glob(_) | Value::List(_) => None,
            };
            let size = size.ok_or_else(|| wrong("weight_group_size", &found, "a whole number above 0"))?;
            Some(Spanned { value: size, span: found.span })
        }
    };
    let known = ["bias_mode", "force_range_in", "force_range_out", "quantization_groups"];
    let left = known.iter().filter_map(|key| arguments.take_named(key).map(|_| format!("quantization_param({key})")));
    let mut settings: Vec<Setting> = left.map(Setting::NotEmulated).collect();
    if mode.is_none() && weight_group.is_none() && settings.is_empty() {
        return Err(arguments.missing("precision_mode or weight_group_size"));
    }
    let parameters = ["precision_mode", "weight_group_size", known[0], known[1], known[2], known[3]];
    arguments.finish("give several layers as one list: [a, b]", &parameters)?;
    settings.push(Setting::Precision { layers, mode, weight_group });
    Ok(settings)
}

fn pre_quantization(mut arguments: Arguments) -> Result<Vec<Setting>, Problem> {
    let feature = arguments.word("a feature first")?;
    let on = arguments.policy()?;
    let usage = "after the feature come key=value pairs";
    let setting = match feature.value.as_str() {
        "equalization" => {
            let layers = arguments.take_named("layers");
            arguments.finish(usage, &["policy", "layers"])?;
            Setting::Equalization { on, layers }
        }
        "activation_clipping" => {
            let (layers, percentiles) = (arguments.take_named("layers"), percentiles(&mut arguments)?);
            arguments.finish(usage, &["policy", "layers", "mode", "clipping_values"])?;
            Setting::ActivationClipping { on, layers, percentiles }
        }
        "quarot" => {
            let rest = arguments.rest();
            let settings = [Setting::Rotation { on }].into_iter();
            let parameters = rest.into_iter().filter(|_| on).map(|it| Setting::NotEmulated(format!("quarot({it})")));
            return Ok(settings.chain(parameters).collect());
        }
        name if PRE_FEATURES.contains(&name) => return Ok(not_emulated(name, on, &mut arguments)),
        _ => return Err(unknown("feature of pre_quantization_optimization", &feature, &PRE_FEATURES)),
    };
    Ok(vec![setting])
}

/// `mode=percentile, clipping_values=[0.01, 99.99]`
fn percentiles(arguments: &mut Arguments) -> Result<(f64, f64), Problem> {
    if let Some(mode) = arguments.take_named("mode")
        && mode.value != Value::Word("percentile".to_owned())
    {
        return Err(wrong("mode", &mode, "percentile"));
    }
    let found =
        arguments.take_named("clipping_values").ok_or_else(|| arguments.missing("clipping_values=[low, high]"))?;
    let number = |value: &Spanned<Value>| match &value.value {
        Value::Word(word) => word.parse::<f64>().ok().filter(|percent| (0.0..=100.0).contains(percent)),
        Value::Glob(_) | Value::List(_) => None,
    };
    let pair = match &found.value {
        Value::List(values) => match values.as_slice() {
            [low, high] => number(low).zip(number(high)).filter(|(low, high)| low < high),
            _ => None,
        },
        Value::Word(_) | Value::Glob(_) => None,
    };
    pair.ok_or_else(|| wrong("clipping_values", &found, "two percentiles from 0 to 100, the lower first"))
}

fn post_quantization(mut arguments: Arguments) -> Result<Vec<Setting>, Problem> {
    let feature = arguments.word("a feature first")?;
    let on = arguments.policy()?;
    match feature.value.as_str() {
        "bias_correction" => {
            let layers = arguments.take_named("layers");
            arguments.finish("after the feature come key=value pairs", &["policy", "layers"])?;
            Ok(vec![Setting::BiasCorrection { on, layers }])
        }
        name if POST_FEATURES.contains(&name) => Ok(not_emulated(name, on, &mut arguments)),
        _ => Err(unknown("feature of post_quantization_optimization", &feature, &POST_FEATURES)),
    }
}

fn not_emulated(feature: &str, on: bool, arguments: &mut Arguments) -> Vec<Setting> {
    arguments.rest();
    if on { vec![Setting::NotEmulated(feature.to_owned())] } else { Vec::new() }
}

/// What a level stands for is the compiler's own choice; 0 is none.
fn flavor(mut arguments: Arguments) -> Result<Vec<Setting>, Problem> {
    let mut settings = Vec::new();
    for key in ["compression_level", "optimization_level"] {
        let level: Option<i32> = arguments.parsed(key, "a whole number")?;
        if let Some(level) = level.filter(|level| *level > 0) {
            let said = format!("model_optimization_flavor({key}={level}) beyond what other lines say");
            settings.push(Setting::NotEmulated(said));
        }
    }
    let _: Option<usize> = arguments.parsed("batch_size", "a whole number")?;
    arguments
        .finish("its arguments are key=value pairs", &["compression_level", "optimization_level", "batch_size"])?;
    Ok(settings)
}

fn config(mut arguments: Arguments) -> Result<Vec<Setting>, Problem> {
    let topic = arguments.word("a topic first")?;
    match topic.value.as_str() {
        "calibration" => {
            let _: Option<usize> = arguments.parsed("batch_size", "a whole number")?;
            let expected = "a whole number above 0";
            let size: Option<std::num::NonZeroUsize> = arguments.parsed("calibset_size", expected)?;
            arguments.finish("after the topic come key=value pairs", &["batch_size", "calibset_size"])?;
            Ok(size.map(|size| Setting::CalibrationPrompts(size.get())).into_iter().collect())
        }
        // How the compiler spreads its own work and checks it.
        "globals" | "checker_cfg" => Ok(Vec::new()),
        name if TOPICS.contains(&name) => {
            arguments.rest();
            Ok(vec![Setting::NotEmulated(format!("model_optimization_config({name})"))])
        }
        _ => Err(unknown("topic of model_optimization_config", &topic, &TOPICS)),
    }
}

/// A script must decide something.
pub(crate) fn refuse_empty(statements: &[Statement]) -> Result<(), Problem> {
    match statements.iter().any(|statement| matches!(statement.body, Body::Call(_))) {
        true => Ok(()),
        false => Err(Fault::Empty.at(0..0)),
    }
}
