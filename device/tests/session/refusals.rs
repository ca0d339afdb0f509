//! What a session refuses before anything runs.

use fidelity_device::session::{Job, SessionError};
use fidelity_hef_writer::hef_writer::Hef;
use fidelity_trace::Scope;

use crate::{
    Kept, configured,
    fake_chip::FakeLibrary,
    job,
    small_llm::{small, stored, with_codes},
};

#[track_caller]
fn refused(change: impl FnOnce(&mut Hef), said: &str) {
    let mut hef = with_codes(small().hef());
    change(&mut hef);
    let (_folder, path) = stored(&hef);
    let library = FakeLibrary::default();
    let Err(error) = configured(&library, &path) else { panic!("it must be refused: {said}") };
    assert!(matches!(error, SessionError::Contract { .. }), "{error}");
    assert!(error.to_string().contains(said), "{error} does not say {said:?}");
    assert!(library.take_events().is_empty(), "nothing may reach the library");
}

fn configuration(hef: &mut Hef, key: &str, value: u64) {
    let mut config = small().config();
    config["pre_process_params"][key] = value.into();
    hef.resources[0].bytes = config.to_string().into_bytes();
}

#[test]
fn sizes_that_do_not_fit_each_other() {
    refused(|hef| configuration(hef, "kv_cache_size", 8), "cache 0 has 6 entries, kv_cache_size is 8");
    refused(|hef| configuration(hef, "num_attention_heads", 3), "expected 4 rows of 18 values");
    refused(|hef| configuration(hef, "num_key_value_heads", 2), "(pe_k_cos) is 1x4x2, expected 4 rows of 4 values");
    refused(|hef| configuration(hef, "prefill_input_tokens_count", 5), "prefill is fed 4 rows");
    refused(|hef| configuration(hef, "num_attention_heads", 0), "num_attention_heads: 0 is no size");
    refused(|hef| hef.groups[1].edge("small_tbt/input_layer1").shape = [1, 2, 2], "expected 1 rows of 2 values");
    refused(|hef| hef.groups[1].edge("small_tbt/conv2").shape = [1, 1, 5], "shards must be equal");
    refused(narrow, "do not give logits in the same shards");
    refused(|hef| hef.resources[1].bytes.truncate(30), "embeddings.bin has 30 bytes");
    refused(|hef| hef.resources[2].bytes.truncate(4), "expected 4 rows of 2 values");
    refused(|hef| hef.resources[2].bytes = f32::NAN.to_le_bytes().repeat(2), "not finite");
}

/// Both shards of tbt.
fn narrow(hef: &mut Hef) {
    for name in ["small_tbt/conv1", "small_tbt/conv2"] {
        hef.groups[1].edge(name).shape = [1, 1, 3];
    }
}

#[test]
fn types_and_roles() {
    refused(
        |hef| hef.groups[0].edge("small_prefill/input_layer1").data_bytes = 1,
        "(embeddings) has values of 1 bytes",
    );
    refused(|hef| hef.groups[0].edge("small_prefill/input_layer2").data_bytes = 2, "has values of 2 bytes");
    refused(
        |hef| hef.groups[0].edge("small_prefill/input_layer4").name = "small_prefill/other".into(),
        "no input ends in",
    );
    refused(|hef| hef.groups[0].edge("small_prefill/input_layer2").limits = [-300.0, -200.0], "no code of its own");
    refused(|hef| hef.groups[1].name = "base_model__step".into(), "no group ends in `tbt`");
    refused(|hef| hef.resources.truncate(2), "rope_theta_data.bin is missing");
    refused(|hef| hef.groups[1].contexts[0].edges.retain(|edge| edge.connection == 0), "has no cache");
}

#[track_caller]
fn refused_job(change: impl FnOnce(&mut Job), said: &str) {
    let (_folder, path) = stored(&with_codes(small().hef()));
    let library = FakeLibrary::default();
    let mut session = configured(&library, &path).expect("sound");
    library.take_events();
    let mut job = job(&[1, 2, 3], &[4, 5]);
    change(&mut job);
    let error = session.run(&job, &mut Kept::default()).expect_err("refused");
    assert!(matches!(error, SessionError::Request { .. }), "{error}");
    assert!(error.to_string().contains(said), "{error} does not say {said:?}");
    assert!(library.take_events().is_empty(), "nothing may reach the library");
}

#[test]
fn jobs_that_cannot_be_done() {
    refused_job(|job| job.token_ids.clear(), "no token");
    refused_job(|job| job.token_ids[1] = 8, "id 8 has no row in embeddings.bin, which has 8");
    refused_job(|job| job.continuation = Some(vec![1, 9]), "id 9 has no row");
    refused_job(
        |job| job.scopes.push(Scope::Base),
        "does not offer scope base; it offers prefill, tbt, tbt_free, tbt_self",
    );
    refused_job(|job| job.continuation = None, "need the ids to be fed");
    refused_job(|job| job.vocabulary = Some(9), "a vocabulary of 9, but the HEF gives 8 logits");
}
