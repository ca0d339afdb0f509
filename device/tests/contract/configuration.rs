//! Runtime, target, groups, resources and hailo-config.json.

use fidelity_device::audit::{CheckId, State};
use serde_json::{Value, json};

use crate::{
    expect, only,
    support::{audit, check},
    with,
};
use fidelity_hef_writer::{
    hef_writer::{Group, Hef, Resource},
    llm_writer::Llm,
    old_containers::v2,
};

/// A sound file with a change to its hailo-config.json.
fn configured(change: impl FnOnce(&mut Value)) -> Hef {
    with(|hef| {
        let mut config = Llm::default().config();
        change(&mut config);
        hef.resources[0] = Resource::new("hailo-config.json", config.to_string());
    })
}

/// Sets a key of pre_process_params; null removes it.
fn parameter(key: &str, value: Value) -> Hef {
    configured(|config| {
        let table = config["pre_process_params"].as_object_mut().expect("an object");
        match value {
            Value::Null => table.remove(key),
            value => table.insert(key.into(), value),
        };
    })
}

#[test]
fn runtime() {
    only(&with(|hef| hef.extensions.retain(|index| *index != 26)), CheckId::Runtime, "refuses its extensions");
    let found = audit(v2(&Llm::default().hef()));
    let runtime = check(&found, CheckId::Runtime);
    assert!(runtime.state == State::Fail && runtime.found.contains("container version 2"), "{runtime:?}");
}

#[test]
fn target() {
    only(&with(|hef| hef.architecture = 1), CheckId::Target, "HAILO8P runs on HAILO8 only");
    only(&with(|hef| hef.architecture = 5), CheckId::Target, "architecture 5 is not known");
    expect(&with(|hef| hef.architecture = 105), CheckId::Target, State::Pass, "HAILO10H");
}

#[test]
fn groups() {
    let named = |first: &str, second: &str| {
        with(|hef| (hef.groups[0].name, hef.groups[1].name) = (first.into(), second.into()))
    };
    expect(&named("anything_prefill", "anything_tbt"), CheckId::Groups, State::Pass, "tbt is `anything_tbt`");
    expect(&named("first", "my_tbt"), CheckId::Groups, State::Fail, "no group's name ends in `prefill`");
    expect(&named("my_prefill", "second"), CheckId::Groups, State::Fail, "no group's name ends in `tbt`");
    expect(&named("a_prefill", "b_prefill"), CheckId::Groups, State::Fail, "2 groups end in `prefill`");
    let lora = |name: &str| Group { name: name.into(), ..Llm::default().hef().groups[0].clone() };
    let adapters = with(|hef| hef.groups.push(lora("mine__prefill")));
    expect(&adapters, CheckId::Groups, State::Pass, "1 more belong to LoRA adapters");
    let nameless = with(|hef| {
        hef.groups.push(lora("mine__prefill"));
        hef.groups[0].name = "prefill".into();
    });
    expect(&nameless, CheckId::Groups, State::Fail, "no group's name ends in `base_model__prefill`");
}

#[test]
fn resources() {
    let without = |name: &str| with(|hef| hef.resources.retain(|resource| resource.name != name));
    expect(&without("hailo-config.json"), CheckId::Resources, State::Fail, "missing: hailo-config.json");
    for name in ["embeddings.bin", "tokenizer.json", "rope_theta_data.bin"] {
        expect(&without(name), CheckId::Resources, State::Unknown, &format!("missing: {name}"));
    }
}

#[test]
fn values_of_the_configuration() {
    let text = |text: &str| with(|hef| hef.resources[0] = Resource::new("hailo-config.json", text));
    expect(&text("{"), CheckId::Config, State::Fail, "it is not JSON");
    expect(&text("[]"), CheckId::Config, State::Fail, "it is not a JSON object");
    let eos = |value: Value| configured(|config| config["eos_token_id"] = value);
    only(&eos(json!("2")), CheckId::Config, "eos_token_id is \"2\", expected a whole number");
    only(&eos(json!(40)), CheckId::Config, "eos_token_id = 40, but ids go from 0 to 39");
    only(&eos(json!(-1)), CheckId::Config, "eos_token_id = -1");
    let none = configured(|config| drop(config.as_object_mut().expect("an object").remove("eos_token_id")));
    only(&none, CheckId::Config, "eos_token_id is missing");
    expect(
        &parameter("kv_cache_size", json!("16")),
        CheckId::Config,
        State::Fail,
        "kv_cache_size is \"16\", expected a whole",
    );
    expect(&parameter("kv_cache_size", json!(1_u64 << 32)), CheckId::Config, State::Fail, "of 32 bits");
    only(&configured(|config| config["chat_template"] = json!([])), CheckId::Config, "chat_template is []");
}

/// `prefill_input_tokens_size` looks right, is not read, and the server takes 96.
#[test]
fn a_key_that_is_not_read_hides_a_default() {
    let misspelt = configured(|config| {
        let table = config["pre_process_params"].as_object_mut().expect("an object");
        let count = table.remove("prefill_input_tokens_count").expect("there");
        table.insert("prefill_input_tokens_size".into(), count);
    });
    let said = "`prefill_input_tokens_count` is, and without it the server takes 96";
    expect(&misspelt, CheckId::ConfigKeys, State::Fail, said);
    expect(&misspelt, CheckId::PrefillCount, State::Fail, "prefill_input_tokens_count = 96, the server's default, but");
    let harmless = parameter("num_hidden_layers", json!(30));
    expect(&harmless, CheckId::ConfigKeys, State::Pass, "pre_process_params.`num_hidden_layers` is not read");
    let both = parameter("prefill_input_tokens_size", json!(4));
    expect(&both, CheckId::ConfigKeys, State::Pass, "none stands for a key that is missing");
    let top = configured(|config| config["stop_token_ids"] = json!([1]));
    expect(&top, CheckId::ConfigKeys, State::Unknown, "`stop_token_ids` is not read; is `stop_token_id` meant?");
}

#[test]
fn defaults_are_those_of_the_server() {
    for (key, check, said) in [
        ("kv_cache_size", CheckId::MaskInput, "kv_cache_size = 2048, the server's default"),
        ("kv_cache_size", CheckId::CacheLength, "kv_cache_size = 2048, the server's default"),
        ("num_attention_heads", CheckId::RopeQueryInputs, "num_attention_heads = 12, the server's default"),
        ("prefill_input_tokens_count", CheckId::PrefillCount, "prefill_input_tokens_count = 96, the server's default"),
    ] {
        expect(&parameter(key, Value::Null), check, State::Fail, said);
    }
    expect(
        &parameter("num_key_value_heads", Value::Null),
        CheckId::RopeKeyInputs,
        State::Pass,
        "= 2, the server's default",
    );
}

#[test]
fn inputs_by_suffix() {
    let suffixes = |table: Value| configured(|config| config["input_layers_names_suffixes"] = table);
    expect(
        &with(|_| ()),
        CheckId::InputNames,
        State::Pass,
        "by the server's default suffixes: embeddings `input_layer1`",
    );
    // The other order that is in use: K cos, Q cos, K sin, Q sin.
    let other = json!({"pe_k_cos": "layer3", "pe_q_cos": "layer4", "pe_k_sin": "layer5", "pe_q_sin": "layer6"});
    let mut hef = suffixes(other.clone());
    expect(&hef, CheckId::RopeQueryInputs, State::Fail, "expected width 32");
    for (index, network) in [(0, "small_prefill"), (1, "small_tbt")] {
        for (layer, width) in [(3, 16), (4, 32), (5, 16), (6, 32)] {
            hef.groups[index].edge(&format!("{network}/input_layer{layer}")).shape[2] = width;
        }
    }
    let found = audit(hef.v3());
    assert_eq!(found.outcome, State::Pass, "{found:?}");
    expect(&hef, CheckId::InputNames, State::Pass, "by hailo-config.json: ");
    only(&suffixes(json!({"pe_q_cos": "layer9"})), CheckId::InputNames, "no input ends in `layer9` for pe_q_cos");
    expect(
        &suffixes(json!({"pe_q_cos": "layer4"})),
        CheckId::InputNames,
        State::Fail,
        "is taken for pe_q_cos and for pe_q_sin",
    );
    expect(&suffixes(json!({"pe_q_cos": ""})), CheckId::InputNames, State::Fail, "is taken for");
    expect(&suffixes(json!({"pe_q_cos": 3})), CheckId::Config, State::Fail, "pe_q_cos is 3, expected text");
    let extra = with(|hef| {
        let mut edge = hef.groups[0].contexts[0].edges[0].clone();
        edge.name = "small_prefill/input_layer7".into();
        hef.groups[0].contexts[0].edges.push(edge);
    });
    only(&extra, CheckId::InputNames, "nothing is fed to input `small_prefill/input_layer7`");
}
