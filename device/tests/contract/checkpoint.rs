//! A compiled model against a checkpoint's facts.

use std::io::Cursor;

use fidelity_device::{
    audit::{Audit, BosFacts, CheckId, CheckpointFacts, RopeFacts, State, TokenizerFacts, audit},
    hef::Hef as Reader,
};

use crate::{of, support::check, with};
use fidelity_hef_writer::{
    hef_writer::{Hef, Resource},
    llm_writer::{EMBEDDING_SCALE, Llm, tokenizer},
};

/// The facts of the checkpoint that a model was made of.
fn facts(llm: &Llm) -> CheckpointFacts<'static> {
    let (embedding, hidden) = (llm.embedding.clone(), llm.hidden as usize);
    CheckpointFacts {
        name: "small".into(),
        hidden: llm.hidden,
        query_heads: llm.query_heads,
        kv_heads: llm.kv_heads,
        head_dim: llm.head_dim,
        vocabulary: llm.vocabulary,
        rope: Some(RopeFacts {
            frequencies: (0..llm.head_dim / 2)
                .map(|pair| 10000_f64.powf(-2.0 * pair as f64 / llm.head_dim as f64))
                .collect(),
            magnitude: 1.0,
            depends_on_length: false,
        }),
        embedding_rows: Box::new(move |first, rows| Ok(embedding[first * hidden..(first + rows) * hidden].to_vec())),
        tokenizer: Some(TokenizerFacts::read(llm.tokenizer.as_slice()).expect("a tokenizer")),
        bos: BosFacts { expected: Some(true), token: Some("<bos>".into()) },
    }
}

fn against(hef: &Hef, facts: &mut CheckpointFacts<'_>) -> Audit {
    audit(&mut Reader::read(Cursor::new(hef.v3())).expect("readable"), Some(facts)).expect("readable")
}

/// A check of a file against the checkpoint that the sound one was made of, with a change to its facts.
#[track_caller]
fn expect(hef: &Hef, change: impl FnOnce(&mut CheckpointFacts<'_>), id: CheckId, state: State, said: &str) {
    let mut facts = facts(&Llm::default());
    change(&mut facts);
    let found = against(hef, &mut facts);
    let check = check(&found, id);
    assert_eq!(check.state, state, "{check:?}");
    assert!(check.found.contains(said), "{check:?} does not say {said:?}");
    assert_ne!(found.exit_code, if state == State::Fail { 0 } else { 2 });
}

fn sound() -> Hef {
    with(|_| ())
}

#[test]
fn a_model_passes_against_its_own_checkpoint() {
    let found = against(&sound(), &mut facts(&Llm::default()));
    let not_passed: Vec<_> =
        found.checks.iter().filter(|check| check.state != State::Pass).map(|check| check.id).collect();
    assert_eq!(not_passed, [CheckId::CacheQuantisation], "{found:?}");
    assert_eq!((found.outcome, found.exit_code, found.checkpoint.as_deref()), (State::Pass, 0, Some("small")));
}

#[test]
fn what_was_asked_for_and_not_compared_is_no_pass() {
    let found = against(&Hef::small(), &mut facts(&Llm::default()));
    assert_eq!((found.outcome, found.exit_code), (State::Unknown, 3));
    assert!(check(&found, CheckId::CheckpointEmbeddings).found.contains("nothing was compared"));
}

#[test]
fn dimensions() {
    let id = CheckId::CheckpointShape;
    for (change, said) in [
        ((|facts| facts.hidden = 64) as fn(&mut CheckpointFacts<'_>), "hidden size: 32, the checkpoint's is 64"),
        (|facts| facts.query_heads = 2, "query heads: 4, the checkpoint's is 2"),
        (|facts| facts.kv_heads = 4, "key heads: 2, the checkpoint's is 4"),
        (|facts| facts.head_dim = 16, "head_dim: 8, the checkpoint's is 16"),
        (|facts| facts.vocabulary = 41, "vocabulary (rows of embeddings.bin): 40, the checkpoint's is 41"),
    ] {
        expect(&sound(), change, id, State::Fail, said);
    }
    let no_table = with(|hef| hef.resources.retain(|resource| resource.name != "rope_theta_data.bin"));
    expect(&no_table, |_| (), id, State::Unknown, "does not tell: head_dim");
    expect(
        &sound(),
        |facts| facts.vocabulary = 44,
        CheckId::Outputs,
        State::Fail,
        "there are 44 rows of the checkpoint's",
    );
    expect(&sound(), |facts| facts.vocabulary = 36, CheckId::Outputs, State::Unknown, "ids from 36 on must never");
}

#[test]
fn embeddings_equal_to_half_a_step() {
    let id = CheckId::CheckpointEmbeddings;
    expect(&sound(), |_| (), id, State::Pass, "[40, 32]: every code is the nearest");
    let shifted = of(|llm| llm.embedding[5 * 32 + 3] += 1.2 * EMBEDDING_SCALE);
    expect(&shifted, |_| (), id, State::Fail, "1 of 1280 values in 1 rows are off by more than half a step");
    expect(&shifted, |_| (), id, State::Fail, "first row 5");
    let swapped = of(|llm| llm.embedding.rotate_left(32));
    expect(&swapped, |_| (), id, State::Fail, "in 40 rows");
    let scaled = of(|llm| llm.embedding.iter_mut().for_each(|value| *value *= 2.0));
    expect(&scaled, |_| (), id, State::Fail, "it is the checkpoint's times 2.0000");
    let short = with(|hef| hef.resources[1] = Resource::new("embeddings.bin", vec![0; 64]));
    expect(
        &short,
        |_| (),
        id,
        State::Fail,
        "64 bytes in rows of 32 values, but the checkpoint's embedding is [40, 32]",
    );
    let padded = with(|hef| hef.resources[1].bytes.extend([0; 128]));
    expect(&padded, |_| (), id, State::Unknown, "every code is the nearest");
    expect(&padded, |_| (), id, State::Unknown, "2 more rows follow, which the checkpoint does not have");
    expect(
        &padded,
        |_| (),
        CheckId::CheckpointShape,
        State::Unknown,
        "42 rows, the checkpoint 40: padded, or another vocabulary",
    );
    let none = with(|hef| hef.resources.retain(|resource| resource.name != "embeddings.bin"));
    expect(&none, |_| (), id, State::Unknown, "no embeddings.bin");
    let unsaid = with(|hef| hef.groups[0].edge("small_prefill/input_layer1").quantisation = None);
    expect(&unsaid, |_| (), id, State::Unknown, "does not say how its embeddings are quantised");
}

#[test]
fn clipped_embeddings() {
    let id = CheckId::CheckpointEmbeddings;
    // The range of the codes is -4 to 4.
    let large = |count: usize| {
        let mut llm = Llm::default();
        llm.embedding[..count].fill(5.0);
        llm
    };
    let against = |llm: Llm| {
        let embedding = llm.embedding.clone();
        let rows = move |first: usize, rows: usize| Ok(embedding[first * 32..(first + rows) * 32].to_vec());
        (llm.hef(), rows)
    };
    let (hef, rows) = against(large(1));
    expect(&hef, |facts| facts.embedding_rows = Box::new(rows), id, State::Pass, "1 values are clipped by its range");
    let (hef, rows) = against(large(100));
    expect(&hef, |facts| facts.embedding_rows = Box::new(rows), id, State::Unknown, "7.81 % of the values are clipped");
}

/// A rotation of the residual stream moves every value and no inner product.
#[test]
fn rotated_embeddings_are_named_and_never_pass() {
    let rotated = of(|llm| {
        for row in llm.embedding.chunks_exact_mut(32) {
            // Hadamard's matrix, normalised.
            let mut step = 1;
            while step < 32 {
                for at in (0..32).filter(|at| at & step == 0) {
                    (row[at], row[at + step]) = (row[at] + row[at + step], row[at] - row[at + step]);
                }
                step *= 2;
            }
            row.iter_mut().for_each(|value| *value /= 32_f32.sqrt());
        }
    });
    expect(&rotated, |_| (), CheckId::CheckpointEmbeddings, State::Unknown, "rotated, as QuaRot does");
}

#[test]
fn embeddings_that_cannot_be_read_or_are_not_finite() {
    let id = CheckId::CheckpointEmbeddings;
    let broken = |facts: &mut CheckpointFacts<'_>| facts.embedding_rows = Box::new(|_, _| Err("no disk".into()));
    expect(&sound(), broken, id, State::Unknown, "cannot be read: no disk");
    let short = |facts: &mut CheckpointFacts<'_>| facts.embedding_rows = Box::new(|_, _| Ok(vec![0.0]));
    expect(&sound(), short, id, State::Unknown, "gave 1 values");
    let nan =
        |facts: &mut CheckpointFacts<'_>| facts.embedding_rows = Box::new(|_, rows| Ok(vec![f32::NAN; rows * 32]));
    expect(&sound(), nan, id, State::Unknown, "not finite");
}

#[test]
fn theta() {
    let id = CheckId::CheckpointTheta;
    expect(&sound(), |_| (), id, State::Pass, "4 frequencies equal to within");
    let positive = of(|llm| llm.theta.iter_mut().for_each(|value| *value = value.abs()));
    expect(&positive, |_| (), id, State::Pass, "4 frequencies equal");
    let base = of(|llm| {
        for (index, value) in llm.theta.iter_mut().enumerate() {
            *value = value.signum() * 500_000_f32.powf(-((index % 4) as f32) / 4.0);
        }
    });
    expect(&base, |_| (), id, State::Fail, "at pair 1, the checkpoint 1e-1; by its second value its base is 5");
    let scaled = |facts: &mut CheckpointFacts<'_>| facts.rope.as_mut().expect("rope").magnitude = 1.2;
    expect(&sound(), scaled, id, State::Unknown, "multiplies cos and sin by 1.2");
    let dynamic = |facts: &mut CheckpointFacts<'_>| facts.rope.as_mut().expect("rope").depends_on_length = true;
    expect(&sound(), dynamic, id, State::Unknown, "dynamic scaling");
    let partial = |facts: &mut CheckpointFacts<'_>| facts.rope.as_mut().expect("rope").frequencies.truncate(2);
    expect(&sound(), partial, id, State::Unknown, "rotates 4 of 8 dimensions");
    expect(&sound(), |facts| facts.rope = None, id, State::Fail, "learned positions");
    let missing = with(|hef| hef.resources.retain(|resource| resource.name != "rope_theta_data.bin"));
    expect(&missing, |_| (), id, State::Fail, "default table, for want of another, has 128 values");
    expect(&missing, |facts| facts.rope = None, id, State::Unknown, "learned positions");
    let as_default = |facts: &mut CheckpointFacts<'_>| {
        facts.head_dim = 128;
        let frequencies = (0..64).map(|pair| 1e6_f64.powf(-f64::from(pair) / 64.0)).collect();
        facts.rope = Some(RopeFacts { frequencies, magnitude: 1.0, depends_on_length: false });
    };
    expect(&missing, as_default, id, State::Unknown, "5.2 may refuse the file instead");
}

#[test]
fn tokenizers() {
    let id = CheckId::CheckpointTokenizer;
    let written = |bytes: Vec<u8>| with(|hef| hef.resources[3] = Resource::new("tokenizer.json", bytes));
    expect(&sound(), |_| (), id, State::Pass, "the same file");
    expect(
        &written(tokenizer(39)),
        |_| (),
        id,
        State::Fail,
        "39 entries with ids up to 38, the checkpoint's 40 up to 39",
    );
    let renamed = String::from_utf8(tokenizer(40)).expect("UTF-8").replace("token7\"", "tokem7\"");
    expect(&written(renamed.into()), |_| (), id, State::Fail, "another vocabulary");
    let rules = String::from_utf8(tokenizer(40)).expect("UTF-8").replace("\"merges\":[]", "\"merges\":[\"a b\"]");
    expect(&written(rules.into()), |_| (), id, State::Unknown, "the same 40 entries and ids");
    expect(&written([&tokenizer(40)[..], b"\n"].concat()), |_| (), id, State::Unknown, "another file");
    expect(&sound(), |facts| facts.tokenizer = None, id, State::Unknown, "the checkpoint has no tokenizer.json");
    let none = with(|hef| hef.resources.truncate(3));
    expect(&none, |_| (), id, State::Unknown, "the file has no tokenizer.json");
}

#[test]
fn bos() {
    let id = CheckId::CheckpointBos;
    let template = |text: &str| of(|llm| llm.chat_template = text.into());
    let expected = |expected| move |facts: &mut CheckpointFacts<'_>| facts.bos.expected = expected;
    expect(&sound(), |_| (), id, State::Pass, "the chat template writes it");
    expect(&template("<bos>{{ text }}"), |_| (), id, State::Pass, "the chat template writes it");
    expect(&template("{{ text }}"), |_| (), id, State::Fail, "the chat template never writes it");
    expect(&template(""), |_| (), id, State::Fail, "there is no chat template to write it");
    expect(&template("{{ text }}"), expected(Some(false)), id, State::Pass, "begins without BOS");
    expect(&sound(), expected(Some(false)), id, State::Unknown, "mentions it");
    expect(&sound(), expected(None), id, State::Unknown, "is not known");
    let none = with(|hef| hef.resources.retain(|resource| resource.name != "hailo-config.json"));
    expect(&none, |_| (), id, State::Unknown, "no chat template to look at");
}
