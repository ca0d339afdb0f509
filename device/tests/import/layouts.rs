//! Layouts that are known, and what a map can say.

use fidelity_device::import::BUILT_IN;
use fidelity_trace::{ArmKind, BlockSite, Generated, Scope, Site};
use safetensors::{Dtype, tensor::TensorView};

use crate::support::{Beside, Desk, floats, integers, noise, npz, only};

fn built_in(name: &str) -> &'static str {
    BUILT_IN.into_iter().find(|(known, _)| *known == name).expect("built in").1
}

#[test]
fn logits_of_a_greedy_run_are_fed_what_they_choose() {
    let desk = Desk::new();
    let rows = [[0.0, 9.0, 1.0, 2.0], [3.0, 0.0, 1.0, 3.0], [0.0, 0.0, 0.0, 5.0]];
    let file = desk.write("steps.npy", &floats(&[3, 4], rows.concat()));
    let beside = Beside { prompts: Some(&[&[2, 3]]), ..Beside::default() };
    let (imported, trace) = desk.import(&[&file], built_in("logits"), &beside).expect("imports");
    let prompt = only(&trace);
    let (prefill, tbt) = (&prompt.scopes[&Scope::Prefill], &prompt.scopes[&Scope::Tbt]);
    assert_eq!((&prefill.positions[..], &prefill.token_ids[..]), (&[1][..], &[3][..]), "the prompt's last token");
    assert_eq!((&tbt.positions[..], &tbt.token_ids[..]), (&[2, 3][..], &[1, 0][..]), "the lowest id of equals");
    assert_eq!(prefill.sites[&Site::Logits].row(0), rows[0]);
    assert_eq!(tbt.sites[&Site::Logits].values, rows[1..].concat());
    let manifest = trace.manifest();
    assert_eq!(manifest.arm.kind, ArmKind::Import);
    assert!(manifest.complete);
    assert_eq!(manifest.prompts[0].generated, Some(Generated { scope: Scope::TbtFree, ids: vec![1, 0, 3] }));
    assert_eq!((imported.rows[&Scope::Prefill], imported.rows[&Scope::Tbt]), (1, 2));
}

#[test]
fn a_single_step_has_no_tbt_rows_and_says_so() {
    let desk = Desk::new();
    let file = desk.write("steps.npy", &floats(&[1, 4], [0.0, 9.0, 1.0, 2.0]));
    let beside = Beside { prompts: Some(&[&[2, 3]]), ..Beside::default() };
    let (imported, trace) = desk.import(&[&file], built_in("logits"), &beside).expect("imports");
    assert_eq!(only(&trace).scopes.keys().collect::<Vec<_>>(), [&Scope::Prefill]);
    assert_eq!(imported.notes, ["tbt has no rows in the file and was left out"]);
}

#[test]
fn diagnostics_hold_the_rows_after_the_prompt_and_after_one_token_more() {
    let desk = Desk::new();
    let dump = npz(&[
        ("token_ids", integers(&[3], [5, 6, 7])),
        ("next_token_id", integers(&[], [2])),
        ("hf_logits_last", floats(&[1, 1, 4], [0.0, 1.0, 4.0, 3.0])),
        ("hf_logits_tbt", floats(&[4], [1.0, 0.0, 0.0, 0.0])),
        ("hf_hidden_prefill", floats(&[2], [8.0, 9.0])),
        ("embed_rows_prompt", floats(&[3, 2], [0.0; 6])),
    ]);
    let file = desk.write("refs.npz", &dump);
    let (imported, trace) = desk.import(&[&file], built_in("diagnostics"), &Beside::default()).expect("imports");
    let prompt = only(&trace);
    assert_eq!(trace.manifest().prompts[0].token_ids, [5, 6, 7]);
    let (prefill, tbt) = (&prompt.scopes[&Scope::Prefill], &prompt.scopes[&Scope::Tbt]);
    assert_eq!((prefill.positions[0], prefill.token_ids[0]), (2, 7));
    assert_eq!((tbt.positions[0], tbt.token_ids[0]), (3, 2));
    assert_eq!(prefill.sites[&Site::FinalNorm].values, [8.0, 9.0]);
    assert_eq!(tbt.sites[&Site::Logits].values, [1.0, 0.0, 0.0, 0.0]);
    assert_eq!(trace.manifest().prompts[0].generated.as_ref().map(|it| it.ids.clone()), Some(vec![2]));
    assert!(imported.notes.contains(&"not mapped and left out: embed_rows_prompt".to_owned()), "{:?}", imported.notes);
}

#[test]
fn a_first_id_that_the_logits_do_not_choose_is_said() {
    let desk = Desk::new();
    let dump = npz(&[
        ("token_ids", integers(&[1, 3], [5, 6, 7])),
        ("next_token_id", integers(&[1], [3])),
        ("hf_logits_last", floats(&[4], [0.0, 1.0, 4.0, 3.0])),
        ("hf_logits_tbt", floats(&[4], [1.0, 0.0, 0.0, 0.0])),
    ]);
    let file = desk.write("refs.npz", &dump);
    let (imported, _) = desk.import(&[&file], built_in("diagnostics"), &Beside::default()).expect("imports");
    let said = "the first generated id is said to be 3, but the highest logit before it is 2";
    assert!(imported.notes.iter().any(|note| note.contains(said)), "{:?}", imported.notes);
}

#[test]
fn layers_of_an_emulator_are_arranged_and_shards_joined() {
    let desk = Desk::new();
    let hidden = noise(3 * 4, 1);
    let q = noise(3 * 2 * 2, 2);
    let logits = noise(3 * 6, 3);
    let transposed: Vec<f32> = (0..4)
        .flat_map(|value| (0..3).map(move |row| (row, value)))
        .map(|(row, value)| hidden[row * 4 + value])
        .collect();
    let heads_first: Vec<f32> = [0, 1]
        .into_iter()
        .flat_map(|head| (0..3).flat_map(move |row| [0, 1].map(|dim| (row * 2 + head) * 2 + dim)))
        .map(|index| q[index])
        .collect();
    let shard = |from: usize| (0..3).flat_map(|row| logits[row * 6 + from..][..3].to_vec()).collect::<Vec<_>>();
    let file = desk.write(
        "native.npz",
        &npz(&[
            ("net/ew_add0", floats(&[1, 4, 1, 3], transposed)),
            ("net/conv1", floats(&[1, 2, 3, 2], heads_first)),
            ("net/conv9_shard0", floats(&[1, 1, 3, 3], shard(0))),
            ("net/conv9_shard1", floats(&[1, 1, 3, 3], shard(3))),
        ]),
    );
    let map = r#"
        [arm]
        name = "SDK_NATIVE"
        compiler = "5.1.0"
        [prompt]
        id = "story"
        token_ids = [1, 2, 3]
        [scopes.base.sites."blocks.0.resid_post"]
        array = "net/ew_add0"
        axes = "1 value 1 row"
        [scopes.base.sites."blocks.0.q"]
        array = "net/conv1"
        axes = "1 head row dim"
        [scopes.base.sites.logits]
        arrays = ["net/conv9_shard0", "net/conv9_shard1"]
        axes = "1 1 row value"
    "#;
    let (imported, trace) = desk.import(&[&file], map, &Beside::default()).expect("imports");
    let base = &only(&trace).scopes[&Scope::Base];
    assert_eq!(base.sites[&Site::Block(0, BlockSite::ResidPost)].values, hidden);
    let stored = &base.sites[&Site::Block(0, BlockSite::Q)];
    assert_eq!((&stored.shape[..], &stored.values), (&[3, 2, 2][..], &q));
    assert_eq!(base.sites[&Site::Logits].values, logits);
    assert_eq!((&base.positions[..], &base.token_ids[..]), (&[0, 1, 2][..], &[1, 2, 3][..]));
    let manifest = trace.manifest();
    assert_eq!((manifest.arm.name.as_str(), manifest.prompts[0].id.as_str()), ("SDK_NATIVE", "story"));
    assert_eq!(manifest.arm.detail["compiler"], "5.1.0");
    assert!(imported.notes.is_empty(), "{:?}", imported.notes);
}

#[test]
fn a_batch_axis_holds_prompts_and_blocks_are_counted() {
    let desk = Desk::new();
    let (first, second) = (noise(2 * 2 * 3, 4), noise(2 * 2 * 3, 5));
    let file = desk.write(
        "hooks.npz",
        &npz(&[
            ("ids", integers(&[2, 2], [1, 2, 3, 4])),
            ("layer.0.out", floats(&[2, 2, 3], first.clone())),
            ("layer.1.out", floats(&[2, 2, 3], second.clone())),
        ]),
    );
    let map = r#"
        [prompt]
        token_ids = { array = "ids" }
        [scopes.base.sites."blocks.{i}.resid_post"]
        array = "layer.{i}.out"
        axes = "prompt row value"
    "#;
    let (imported, trace) = desk.import(&[&file], map, &Beside::default()).expect("imports");
    assert_eq!(imported.prompts, 2);
    assert!(imported.notes.is_empty(), "{:?}", imported.notes);
    for (index, ids) in [[1, 2], [3, 4]].into_iter().enumerate() {
        let base = &trace.prompt(index).expect("readable").scopes[&Scope::Base];
        assert_eq!(base.token_ids, ids);
        assert_eq!(base.sites[&Site::Block(0, BlockSite::ResidPost)].values, first[index * 6..][..6]);
        assert_eq!(base.sites[&Site::Block(1, BlockSite::ResidPost)].values, second[index * 6..][..6]);
    }
}

#[test]
fn several_files_are_several_prompts_and_rows_may_stand_anywhere() {
    let desk = Desk::new();
    let dump = |seed| {
        npz(&[("at", integers(&[2], [4, 1])), ("fed", integers(&[2], [9, 8])), ("x", floats(&[3, 5], noise(15, seed)))])
    };
    let files = [desk.write("a.npz", &dump(6)), desk.write("b.npz", &dump(7))];
    let map = r#"
        [scopes.tbt]
        positions = { array = "at" }
        token_ids = { array = "fed" }
        [scopes.tbt.sites.logits]
        array = "x"
        axes = "row value"
        take = { from = 1 }
    "#;
    let beside = Beside { prompts: Some(&[&[1], &[2, 3]]), ..Beside::default() };
    let (_, trace) = desk.import(&[&files[0], &files[1]], map, &beside).expect("imports");
    let tbt = &trace.prompt(1).expect("readable").scopes[&Scope::Tbt];
    assert_eq!((&tbt.positions[..], &tbt.token_ids[..]), (&[4, 1][..], &[9, 8][..]));
    assert_eq!(tbt.sites[&Site::Logits].values, noise(15, 7)[5..]);
}

#[test]
fn safetensors_are_read_too() {
    let desk = Desk::new();
    let bytes: Vec<u8> =
        [1.5_f32, -2.0].into_iter().flat_map(|value| half::bf16::from_f32(value).to_le_bytes()).collect();
    let view = TensorView::new(Dtype::BF16, vec![1, 2], &bytes).expect("as many");
    let file = desk.write("dump.safetensors", &safetensors::serialize([("out", view)], None).expect("laid out"));
    let map = "[prompt]\ntoken_ids = [1]\n[scopes.base.sites.logits]\narray = \"out\"\naxes = \"row value\"\n";
    let (_, trace) = desk.import(&[&file], map, &Beside::default()).expect("imports");
    assert_eq!(only(&trace).scopes[&Scope::Base].sites[&Site::Logits].values, [1.5, -2.0]);
}
