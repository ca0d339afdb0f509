//! RoPE table, embeddings.bin and tokenizer.json.

use fidelity_device::audit::{CheckId, State};

use crate::{expect, of, only, with};
use fidelity_hef_writer::{
    hef_writer::{Hef, Resource},
    llm_writer::{Llm, tokenizer},
};

fn resource(name: &'static str, bytes: Vec<u8>) -> Hef {
    with(|hef| {
        let at = hef.resources.iter().position(|resource| resource.name == name).expect("there");
        hef.resources[at] = Resource::new(name, bytes);
    })
}

fn theta(change: fn(&mut Vec<f32>)) -> Hef {
    of(|llm| change(&mut llm.theta))
}

#[test]
fn theta_has_a_length_and_signs() {
    let id = CheckId::Theta;
    expect(&with(|_| ()), id, State::Pass, "8 values, first half negative: the host hands over sin with its sign");
    let positive = theta(|table| table.iter_mut().for_each(|value| *value = value.abs()));
    expect(&positive, id, State::Pass, "both halves positive: the graph negates half of sin itself");
    expect(&theta(|table| table[5] = -table[5]), id, State::Unknown, "signs that neither known convention has");
    let second = theta(|table| table.iter_mut().for_each(|value| *value = -*value));
    expect(&second, id, State::Unknown, "signs that neither known convention has");
    only(&theta(|table| table[5] *= 2.0), id, "the two halves differ in size: value 1 is");
    expect(&theta(|table| table[0] = f32::NAN), id, State::Fail, "it holds NaN");
    let adjacent = theta(|table| *table = (0..8).map(|index| 0.5_f32.powi(index / 2)).collect());
    expect(&adjacent, id, State::Unknown, "side by side: a table for adjacent pairs");
    expect(&theta(|table| table.truncate(7)), id, State::Fail, "expected an even number");
    expect(&resource("rope_theta_data.bin", vec![0; 30]), id, State::Fail, "it has 30 bytes");
    expect(&resource("rope_theta_data.bin", Vec::new()), id, State::Fail, "it has 0 bytes");
    expect(&resource("rope_theta_data.bin", vec![0; 300 << 10]), id, State::Fail, "above 262144 none is read");
}

#[test]
fn embeddings_are_whole_rows() {
    let id = CheckId::EmbeddingsTable;
    let table = Llm::default().embeddings();
    expect(
        &resource("embeddings.bin", table[1..].to_vec()),
        id,
        State::Fail,
        "are not a whole number of rows of 32 uint16",
    );
    expect(&resource("embeddings.bin", Vec::new()), id, State::Fail, "0 bytes are not");
    expect(&resource("embeddings.bin", table[64..].to_vec()), id, State::Fail, "39 rows, but tokenizer.json has id 39");
    expect(&resource("embeddings.bin", [&table[..], &[0; 64]].concat()), id, State::Unknown, "41 rows, but 40 logits");
    let outside = with(|hef| hef.resources[1].offset = Some(1 << 40));
    expect(&outside, id, State::Fail, "not inside the file");
}

#[test]
fn ids_are_below_the_width_of_lm_head() {
    let id = CheckId::Tokenizer;
    let written = |bytes: Vec<u8>| resource("tokenizer.json", bytes);
    expect(&with(|_| ()), id, State::Pass, "40 entries, ids up to 39, 40 logits");
    expect(&written(tokenizer(30)), id, State::Pass, "30 entries");
    expect(&written(tokenizer(41)), id, State::Fail, "41 entries, ids up to 40, but only 40 logits");
    only(&written(b"{}".to_vec()), id, "it has no token");
    only(&written(b"{\"model\":{\"vocab\":{\"a\":-1}}}".to_vec()), id, "invalid value");
    only(&written(b"nonsense".to_vec()), id, "expected");
    let unigram =
        r#"{"model":{"type":"Unigram","vocab":[["<unk>",0.0],["a",-1.5]]},"added_tokens":[{"id":40,"content":"x"}]}"#;
    expect(&written(unigram.into()), id, State::Fail, "3 entries, ids up to 40");
    let nulls = r#"{"model":{"type":"WordLevel","vocab":{"a":0}},"added_tokens":null,"decoder":null}"#;
    expect(&written(nulls.into()), id, State::Pass, "1 entries, ids up to 0");
}
