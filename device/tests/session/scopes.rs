//! Rows and ids of every scope against the same computed plainly, without cache, chunks or roll-back.

use fidelity_device::session::{Job, PrefillRows, Session};
use fidelity_hef_writer::hef_writer::Hef;
use fidelity_trace::Scope;

use crate::{
    Kept, configured,
    fake_chip::{Call, FakeLibrary, Mishap, logits},
    job,
    small_llm::{CHUNK, LENGTH, VOCABULARY, number, small, stored, whole, with_codes},
};

fn run(hef: &Hef, job: &Job) -> Kept {
    run_on(&FakeLibrary::default(), hef, job)
}

fn run_on(library: &FakeLibrary, hef: &Hef, job: &Job) -> Kept {
    let (_folder, path) = stored(hef);
    let mut session = configured(library, &path).expect("sound");
    kept(&mut session, job)
}

fn kept(session: &mut Session, job: &Job) -> Kept {
    let mut kept = Kept::default();
    session.run(job, &mut kept).expect("runs");
    kept.rows.sort_by_key(|(scope, position, ..)| (*scope, *position));
    kept
}

/// The logits after these tokens.
fn plain(tokens: &[u32], length: usize) -> Vec<f32> {
    let numbers: Vec<u32> = tokens.iter().map(|token| number(*token)).collect();
    logits(&numbers, length, VOCABULARY as usize)
}

fn choice(row: &[f32]) -> u32 {
    let highest = row.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    row.iter().position(|value| value.total_cmp(&highest).is_eq()).expect("there") as u32
}

/// What a job must give.
fn expected(job: &Job) -> Kept {
    let tokens = &job.token_ids;
    let mut kept = Kept::default();
    let wants = |scope| job.scopes.contains(&scope);
    if wants(Scope::Prefill) {
        let first = match job.prefill_rows {
            PrefillRows::Last => tokens.len() - 1,
            PrefillRows::All => 0,
            PrefillRows::Count(count) => tokens.len().saturating_sub(count),
        };
        kept.rows.extend(
            (first..tokens.len()).map(|at| (Scope::Prefill, at as u32, tokens[at], plain(&tokens[..=at], LENGTH))),
        );
    }
    let fed = job.continuation.as_deref().unwrap_or_default();
    let fed = &fed[..fed.len().saturating_sub(1)];
    for (scope, length) in [(Scope::Tbt, LENGTH), (Scope::TbtSelf, 1)] {
        for step in (0..fed.len()).filter(|_| wants(scope)) {
            let all = [tokens, &fed[..=step]].concat();
            kept.rows.push((scope, (tokens.len() + step) as u32, fed[step], plain(&all, length)));
        }
    }
    if wants(Scope::TbtFree) && job.new_tokens > 0 {
        let mut all = tokens.clone();
        while all.len() < tokens.len() + job.new_tokens && !all[tokens.len()..].iter().any(|id| job.eos.contains(id)) {
            all.push(choice(&plain(&all, LENGTH)));
        }
        kept.generated = Some(all.split_off(tokens.len()));
    }
    kept
}

/// A prompt of that length, in which neighbours differ.
fn prompt(length: usize) -> Vec<u32> {
    (0..length as u32).map(|at| (at * at + 3 * at + 1) % VOCABULARY as u32).collect()
}

#[test]
fn every_scope_at_every_length_through_both_kinds_of_file() {
    let with_tbt = with_codes(small().hef());
    let mut without_tbt = with_tbt.clone();
    without_tbt.groups.pop();
    for length in 1..=3 * CHUNK + 1 {
        for rows in [PrefillRows::Last, PrefillRows::All, PrefillRows::Count(3)] {
            let free = run(&with_tbt, &Job { scopes: vec![Scope::TbtFree], ..job(&prompt(length), &[0; 6]) });
            let own = free.generated.expect("generated");
            // Fed what it chooses itself, another id in the middle, other ids from the start.
            let mut parting = own.clone();
            parting[3] = (parting[3] + 1) % VOCABULARY as u32;
            for fed in [own, parting, vec![5, 1, 5, 1, 5, 1], vec![2]] {
                let job = Job { prefill_rows: rows, ..job(&prompt(length), &fed) };
                assert_eq!(run(&with_tbt, &job), expected(&job), "{length} {rows} {fed:?}");
                assert_eq!(run(&without_tbt, &job), expected(&job), "{length} {rows} {fed:?}, prefill alone");
            }
        }
    }
}

#[test]
fn one_prompt_leaves_nothing_to_the_next() {
    let (_folder, path) = stored(&with_codes(small().hef()));
    let mut session = configured(&FakeLibrary::default(), &path).expect("sound");
    for length in [7, 2, 9, 1, 4] {
        let job = job(&prompt(length), &[3, 3, 3]);
        assert_eq!(kept(&mut session, &job), expected(&job), "{length}");
    }
}

#[test]
fn a_generation_ends_with_an_end_of_text() {
    let hef = with_codes(small().hef());
    let free = |eos: &[u32]| {
        let job = Job { eos: eos.to_vec(), scopes: vec![Scope::TbtFree], ..job(&prompt(5), &[0; 6]) };
        run(&hef, &job).generated.expect("generated")
    };
    let unbroken = free(&[]);
    assert_eq!(unbroken.len(), 6);
    let end = unbroken[2];
    let first = unbroken.iter().position(|id| *id == end).expect("there");
    assert_eq!(free(&[end]), unbroken[..=first]);
}

#[test]
fn padding_ids_are_neither_chosen_nor_handed_on() {
    let hef = with_codes(small().hef());
    let job = Job { vocabulary: Some(5), ..job(&prompt(5), &[3; 8]) };
    let kept = run(&hef, &job);
    assert!(kept.rows.iter().all(|(.., logits)| logits.len() == 5));
    assert!(kept.generated.expect("generated").iter().all(|id| *id < 5));
    assert_eq!(kept.rows[0].3, plain(&prompt(5), LENGTH)[..5]);
}

#[test]
fn without_new_tokens_only_the_prompt_is_computed() {
    let job = Job { new_tokens: 0, ..job(&prompt(5), &[]) };
    let kept = run(&with_codes(small().hef()), &job);
    assert_eq!((kept.rows.len(), kept.generated), (1, None));
}

#[test]
fn a_timeout_of_setting_the_offset_is_asked_again() {
    let job = job(&prompt(6), &[3, 4, 5]);
    for mishaps in [
        vec![(Call::InitCache, 0, Mishap::DoneButStatus(4))],
        vec![(Call::InitCache, 0, Mishap::Status(4)), (Call::InitCache, 1, Mishap::Status(4))],
    ] {
        let kept = run_on(&FakeLibrary::with(&mishaps), &with_codes(small().hef()), &job);
        assert_eq!(kept, expected(&job), "{mishaps:?}");
    }
}

#[test]
fn a_timeout_of_moving_the_offset_is_not_repeated_but_set() {
    let job = job(&prompt(6), &[3, 4, 5]);
    for mishap in [Mishap::DoneButStatus(4), Mishap::Status(4)] {
        let library = FakeLibrary::with(&[(Call::UpdateOffset, 2, mishap)]);
        let kept = run_on(&library, &with_codes(small().hef()), &job);
        assert_eq!(kept, expected(&job), "{mishap:?}");
    }
}

#[test]
fn other_failures_of_the_device_end_the_prompt() {
    let (_folder, path) = stored(&with_codes(small().hef()));
    for (call, at) in [(Call::InitCache, 0), (Call::UpdateOffset, 1), (Call::Run, 2)] {
        let library = FakeLibrary::with(&[(call, at, Mishap::Status(8))]);
        let mut session = configured(&library, &path).expect("sound");
        let error = session.run(&job(&prompt(6), &[3, 4, 5]), &mut Kept::default()).expect_err("fails");
        assert!(error.to_string().contains(&format!("{call:?}")), "{error}");
        assert!(!session.is_poisoned());
    }
}

#[test]
fn without_a_cache_the_whole_sequence_is_fed_at_once() {
    let (rows, tokens) = (7, prompt(5));
    let base = |prefill_rows| Job { scopes: vec![Scope::Base], prefill_rows, ..job(&tokens, &[]) };
    for (prefill_rows, first) in [(PrefillRows::Last, 4), (PrefillRows::All, 0), (PrefillRows::Count(2), 3)] {
        let kept = run(&whole(rows, 1), &base(prefill_rows));
        let row = |at: usize| (Scope::Base, at as u32, tokens[at], plain(&tokens[..=at], rows as usize));
        assert_eq!(kept.rows, (first..5).map(row).collect::<Vec<_>>(), "{prefill_rows}");
    }
    // Where a run gives all rows, there is one run; rows of padding go nowhere.
    let every = run(&whole(rows, rows), &base(PrefillRows::Last));
    assert_eq!(every.rows.iter().map(|(_, position, ..)| *position).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(every.rows[4].3, plain(&tokens, rows as usize));
    let library = FakeLibrary::default();
    run_on(&library, &whole(rows, 1), &base(PrefillRows::Last));
    let events = library.take_events();
    assert_eq!(events.len(), 2, "configured and run, no offset moved: {events:?}");
}
