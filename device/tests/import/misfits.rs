//! What does not fit is refused and explained.

use fidelity_device::import::ModelShape;
use fidelity_trace::{
    Arm, ArmKind, BlockSite, Capture, CheckpointIdentity, Manifest, Rows, Scope, Site, Taps, Trace, TraceWriter,
};

use crate::support::{Beside, Desk, floats, integers, noise, npz};

const MODEL: ModelShape =
    ModelShape { blocks: 1, hidden: 4, query_heads: 2, kv_heads: 1, head_dim: 3, mlp: 8, vocabulary: 5 };

fn map(site: &str, axes: &str) -> String {
    format!("[prompt]\ntoken_ids = [1, 2, 3]\n[scopes.base.sites.\"{site}\"]\narray = \"x\"\naxes = \"{axes}\"\n")
}

fn refused(shape: &[usize], map: &str, model: Option<ModelShape>) -> String {
    let desk = Desk::new();
    let file = desk.write("x.npz", &npz(&[("x", floats(shape, noise(shape.iter().product(), 1)))]));
    desk.refused(&[&file], map, &Beside { model, ..Beside::default() })
}

/// A reference with logits [3, 5] and q [3, 2, 3] in scope base, of the tokens 1 2 3.
fn reference(desk: &Desk, logits: &[f32], q: &[f32]) -> Trace {
    let arm = Arm { kind: ArmKind::Reference, name: String::new(), detail: serde_json::Map::new() };
    let mut manifest = Manifest::new(arm, CheckpointIdentity::default());
    let prompt = serde_json::json!({"id": "mine", "token_ids": [1, 2, 3], "file": "prompts/0000.safetensors"});
    manifest.prompts.push(serde_json::from_value(prompt).expect("a prompt"));
    let mut capture = Capture::new(Taps::All);
    capture.rows(Scope::Base, Rows { positions: &[0, 1, 2], token_ids: &[1, 2, 3] });
    capture.tensor(Scope::Base, Site::Block(0, BlockSite::Q), &[3, 2, 3], q);
    capture.tensor(Scope::Base, Site::Logits, &[3, 5], logits);
    let mut writer = TraceWriter::open(&desk.path("reference"), manifest, false).expect("begun");
    writer.finish_prompt(0, &capture).expect("written");
    writer.complete().expect("written");
    Trace::open(&desk.path("reference")).expect("a trace")
}

#[test]
fn sizes_tell_what_would_fit() {
    let transposed = refused(&[1, 7, 3], &map("logits", "1 row value"), None);
    assert!(transposed.contains("x.npz: base/logits: shape [1, 7, 3] read as axes = \"1 row value\": 7 rows, its positions are 3; its sizes would fit as axes = \"1 value row\""), "{transposed}");
    let batch = refused(&[1, 1, 3, 7], &map("logits", "row value"), None);
    assert!(
        batch.contains("has 4 axes, but axes = \"row value\" names 2; its sizes would fit as axes = \"1 1 row value\""),
        "{batch}"
    );
    let neither = refused(&[4, 7], &map("logits", "row value"), None);
    assert!(neither.ends_with("4 rows, its positions are 3; no order of its axes fits"), "{neither}");
    let heads = refused(&[2, 3, 3], &map("blocks.0.q", "row head dim"), Some(MODEL));
    assert!(heads.contains("would fit as axes = \"head row dim\" or axes = \"head dim row\""), "{heads}");
}

#[test]
fn the_checkpoint_tells_how_wide_rows_are() {
    let wide = refused(&[3, 7], &map("logits", "row value"), Some(MODEL));
    assert!(wide.contains("7 values a row, the checkpoint has 5"), "{wide}");
    let block = refused(&[3, 4], &map("blocks.1.resid_post", "row value"), Some(MODEL));
    assert!(block.contains("there is a block 1, but the checkpoint has 1 (0 to 0)"), "{block}");
    let keys = refused(&[3, 3, 3], &map("blocks.0.scores", "row head key"), Some(MODEL));
    assert!(keys.contains("3 heads, the checkpoint has 2"), "{keys}");
}

#[test]
fn a_reference_tells_one_square_layout_from_another() {
    let desk = Desk::new();
    let (logits, q) = (noise(15, 3), noise(18, 4));
    let trace = reference(&desk, &logits, &q);
    let beside = Beside { against: Some(&trace), ..Beside::default() };
    // Rows by keys: heads and rows are both 3 long, so that sizes fit either way.
    let swapped: Vec<f32> = (0..3)
        .flat_map(|dim| (0..2).flat_map(move |head| (0..3).map(move |row| (row * 2 + head) * 3 + dim)))
        .map(|index| q[index])
        .collect();
    let file = desk.write("q.npz", &npz(&[("x", floats(&[3, 2, 3], swapped))]));
    let refused = desk.refused(&[&file], &map("blocks.0.q", "row head dim"), &beside);
    assert!(
        refused.contains("looks transposed: correlation 1.0000 after swapping axes 0 and 2 (axes = \"dim head row\")"),
        "{refused}"
    );

    let transposed: Vec<f32> =
        (0..5).flat_map(|value| (0..3).map(move |row| row * 5 + value)).map(|index| logits[index]).collect();
    let file = desk.write("logits.npz", &npz(&[("x", floats(&[5, 3], transposed))]));
    let refused = desk.refused(&[&file], &map("logits", "row value"), &beside);
    assert!(
        refused
            .contains("5 rows, its positions are 3; looks transposed: correlation 1.0000 after swapping axes 0 and 1"),
        "{refused}"
    );
}

#[test]
fn heads_inside_dimensions_and_shards_out_of_order_are_found() {
    let desk = Desk::new();
    let (logits, q) = (noise(15, 3), noise(18, 4));
    let trace = reference(&desk, &logits, &q);
    let beside = Beside { against: Some(&trace), ..Beside::default() };
    let inside: Vec<f32> = (0..3)
        .flat_map(|row| (0..3).flat_map(move |dim| [0, 1].map(|head| (row * 2 + head) * 3 + dim)))
        .map(|index| q[index])
        .collect();
    let file = desk.write("q.npz", &npz(&[("x", floats(&[3, 6], inside.clone()))]));
    let refused = desk.refused(&[&file], &map("blocks.0.q", "row value"), &beside);
    assert!(refused.contains("correlation 1.0000 after reading it as axes = \"row (dim head)\""), "{refused}");
    let said = map("blocks.0.q", "row (dim head)") + "heads = 2\n";
    desk.import(&[&file], &said, &beside).expect("as was advised");
    std::fs::remove_dir_all(desk.path("trace")).expect("there");

    let shard = |from: usize, width: usize| {
        (0..3).flat_map(|row| logits[row * 5 + from..][..width].to_vec()).collect::<Vec<_>>()
    };
    let file = desk.write("s.npz", &npz(&[("a", floats(&[3, 2], shard(0, 2))), ("b", floats(&[3, 3], shard(2, 3)))]));
    let joined = |arrays: &str| {
        format!(
            "[prompt]\ntoken_ids = [1, 2, 3]\n[scopes.base.sites.logits]\narrays = {arrays}\naxes = \"row value\"\n"
        )
    };
    let refused = desk.refused(&[&file], &joined("[\"b\", \"a\"]"), &beside);
    assert!(
        refused.contains("joined in the wrong order: correlation 1.0000 with arrays = [\"a\", \"b\"]"),
        "{refused}"
    );
    let (imported, _) = desk.import(&[&file], &joined("[\"a\", \"b\"]"), &beside).expect("in order");
    assert!(imported.checks.iter().all(|check| check.rows == 3 && check.correlation.is_some_and(|it| it > 0.999)));
    assert!(imported.notes.iter().any(|note| note.contains("has the id `mine`")), "{:?}", imported.notes);
}

#[test]
fn a_wrong_arm_in_the_right_layout_is_imported_and_its_correlation_said() {
    let desk = Desk::new();
    let trace = reference(&desk, &noise(15, 3), &noise(18, 4));
    let file = desk.write("x.npz", &npz(&[("x", floats(&[3, 5], noise(15, 99)))]));
    let beside = Beside { against: Some(&trace), ..Beside::default() };
    let (imported, _) = desk.import(&[&file], &map("logits", "row value"), &beside).expect("a broken arm is a finding");
    assert!(imported.checks[0].correlation.is_some_and(|it| it.abs() < 0.8), "{:?}", imported.checks);
}

#[test]
fn prompts_and_rows_must_go_together() {
    let desk = Desk::new();
    let file = desk.write(
        "x.npz",
        &npz(&[
            ("x", floats(&[3, 5], noise(15, 1))),
            ("y", floats(&[1, 4], noise(4, 1))),
            ("ids", integers(&[2], [1, -2])),
            ("halves", floats(&[2], [0.5, 1.5])),
        ]),
    );
    let refused =
        |map: &str, prompts: Option<&[&[u32]]>| desk.refused(&[&file], map, &Beside { prompts, ..Beside::default() });
    let site = "[scopes.base.sites.logits]\narray = 'x'\naxes = 'row value'\n";
    for (map, prompts, says) in [
        (site.to_owned(), None, "it does not say which tokens were fed"),
        (
            format!("[prompt]\ntoken_ids = [1, 2, 3]\n{site}"),
            Some(&[&[1, 2, 3][..]][..]),
            "they cannot be given beside it",
        ),
        (site.to_owned(), Some(&[&[1, 2, 3][..], &[4]][..]), "the files hold 1 prompts"),
        (site.to_owned(), Some(&[&[][..]][..]), "has 0 tokens"),
        (site.to_owned(), Some(&[&[1, 2][..]][..]), "3 rows, its positions are 2"),
        (format!("[prompt]\ntoken_ids = {{ array = 'ids' }}\n{site}"), None, "array `ids`: holds -2"),
        (
            format!("[prompt]\ntoken_ids = {{ array = 'halves' }}\n{site}"),
            None,
            "array `halves`: holds floats, expected the integers",
        ),
        (format!("[prompt]\ntoken_ids = {{ array = 'x' }}\n{site}"), None, "array `x`: holds floats"),
        (
            format!(
                "[prompt]\ntoken_ids = [1, 2, 3]\n{site}[scopes.base.sites.final_norm]\narray = 'y'\naxes = 'row value'\n"
            ),
            None,
            "1 rows, its positions are 3",
        ),
        (
            format!("[prompt]\ntoken_ids = [1]\n[scopes.tbt]\ntoken_ids = 'greedy'\n{}", site.replace("base", "tbt")),
            None,
            "`greedy` needs the logits at position 0",
        ),
        (
            format!("[prompt]\ntoken_ids = [1]\n[scopes.tbt]\ntoken_ids = [1]\n{}", site.replace("base", "tbt")),
            None,
            "3 rows, but 1 tokens were fed",
        ),
        (
            format!("[prompt]\ntoken_ids = [1]\n[scopes.tbt]\ntoken_ids = 'prompt'\n{}", site.replace("base", "tbt")),
            None,
            "none at position 1",
        ),
        (
            format!("[prompt]\ntoken_ids = [1]\n[scopes.base]\npositions = [0, 0, 1]\ntoken_ids = [1, 1, 1]\n{site}"),
            None,
            "two rows have the same position",
        ),
        (
            format!(
                "[prompt]\ntoken_ids = [1]\n{}",
                site.replace("'x'", "'z'").replace("axes", "optional = true\naxes")
            ),
            None,
            "it holds none of the arrays that map.toml maps",
        ),
        (
            format!("[prompt]\ntoken_ids = [1]\n{site}take = {{ to = 4 }}\n"),
            None,
            "`take` ends at row 4, but there are 3 rows",
        ),
    ] {
        let found = refused(&map, prompts);
        assert!(found.contains(says), "{map}\n{found}");
    }
}

#[test]
fn a_block_that_is_missing_between_others_is_refused() {
    let desk = Desk::new();
    let file = desk.write("x.npz", &npz(&[("h0", floats(&[1, 2], [1.0, 2.0])), ("h2", floats(&[1, 2], [1.0, 2.0]))]));
    let map =
        "[prompt]\ntoken_ids = [1]\n[scopes.base.sites.'blocks.{i}.resid_post']\narray = 'h{i}'\naxes = 'row value'\n";
    let found = desk.refused(&[&file], map, &Beside::default());
    assert!(found.contains("array `h1`: not in the file, though `h2` is"), "{found}");
}

#[test]
fn a_trace_that_is_there_already_is_left_alone() {
    let desk = Desk::new();
    let file = desk.write("x.npz", &npz(&[("x", floats(&[3, 5], noise(15, 1)))]));
    desk.import(&[&file], &map("logits", "row value"), &Beside::default()).expect("imports");
    let again =
        desk.import(&[&file], &map("logits", "row value"), &Beside::default()).expect_err("refused").to_string();
    assert!(again.contains("already holds a trace"), "{again}");
}
