//! Other numbers of rows of embedding and head.

use super::*;

#[test]
fn kept_ids_have_their_logits_and_others_are_copies() {
    for name in RMS.into_iter().chain(["gpt2"]) {
        let source = golden(name);
        let rows = source.architecture().vocabulary;
        let whole = logits(&source, None);
        for (steps, last) in [
            (vec![Step::Vocab(rows - 3)], rows - 3),
            (vec![Step::Vocab(rows)], rows),
            (vec![Step::Vocab(2 * rows + 7)], 2 * rows + 7),
            (vec![Step::Vocab(rows - 3), Step::Vocab(rows + 40)], rows + 40),
        ] {
            let desk = desk();
            let out = desk.path().join("forged");
            let forging = forge(&source, &steps, &out).unwrap_or_else(|error| panic!("{name} {steps:?}: {error}"));
            assert!(forging.copied, "{name}");
            let read = Checkpoint::open(&out, "forged").expect("a checkpoint");
            assert_eq!(read.architecture().vocabulary, last, "{name}");
            let first = steps.iter().map(|step| if let Step::Vocab(rows) = step { *rows } else { 0 }).min();
            let kept = first.expect("a step").min(rows);
            for (one, other) in whole.chunks(rows).zip(logits(&read, None).chunks(last)) {
                let expected: Vec<f64> = (0..last).map(|id| one[id % kept]).collect();
                assert!(distance(&expected, other) < 1e-12, "{name} {steps:?}");
            }
        }
    }
    let (source, desk) = (golden("qwen3"), desk());
    let rows = source.architecture().vocabulary + 100;
    let all = [Step::Vocab(rows), Step::Widen(90), Step::Rotate(3), Step::HeadsMha];
    forge(&source, &all, &desk.path().join("forged")).expect("they combine");
}

#[test]
fn ids_that_are_needed_are_not_cut_off() {
    assert!(refusal("llama-gqa", &[Step::Vocab(0)]).contains("from 1 to"));
    assert!(refusal("llama-gqa", &[Step::Vocab(usize::MAX)]).contains("from 1 to"));
    assert!(refusal("llama-gqa", &[Step::Vocab(1)]).contains("_token_id in config.json"));
    // The demo's tokenizer has a token for every row.
    let demo = Checkpoint::demo().expect("it is built in");
    let desk = desk();
    let out = desk.path().join("cut");
    let forging = forge(&demo, &[Step::Vocab(400)], &out).expect("cuts");
    assert!(forging.notes.iter().any(|note| note.contains("tokenizer.json")), "{:?}", forging.notes);
    let read = Checkpoint::open(&out, "cut").expect("tokenizer and weights belong together");
    let text = "Once upon a time there was a little girl.";
    let ids = |checkpoint: &Checkpoint| checkpoint.encode(text, fidelity_trace::BosConvention::Tokenizer).expect("ids");
    assert!(ids(&read).len() > ids(&demo).len() && ids(&read).iter().all(|id| *id < 400));
    let said = read.tokenizer().map(|tokenizer| tokenizer.decode(&ids(&read)));
    assert!(said.is_some_and(|said| said.contains("little girl")), "the text is the same");
    let error = forge(&demo, &[Step::Vocab(100)], &desk.path().join("x")).expect_err("bytes fall out").to_string();
    assert!(error.contains("single characters"), "{error}");
}

#[test]
fn other_rows_are_not_proven() {
    fn swapped(mut draft: Draft) -> Draft {
        draft.relation.vocabulary = vec![300, 200, 600];
        draft
    }
    let desk = desk();
    let source = golden("llama-gqa");
    let rows = source.architecture().vocabulary;
    let broken = Broken { first: Step::Vocab(2 * rows), then: swapped };
    let refused = transformed(&source, &[&broken], &desk.path().join("forged"));
    assert!(matches!(refused, Err(ForgeError::NotProven { .. })), "{refused:?}");
}
