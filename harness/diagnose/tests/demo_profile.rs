//! The profile of the demo checkpoint against what its reference captures.

use fidelity_diagnose::profile;
use fidelity_references::{Checkpoint, Reference};
use fidelity_trace::{BlockSite, Capture, PromptRecord, Request, Scope, Site, Subject, Taps};
use fidelity_verdict::ActivationProfile;

const PROMPTS: [&[u32]; 2] = [&[0, 40, 77, 130, 9, 201, 33], &[0, 64, 300, 411, 58]];

fn record(index: usize) -> PromptRecord {
    PromptRecord::new(index, format!("p{index}"), None, PROMPTS[index].to_vec())
}

/// The profile, and what the reference computes of the same prompts.
fn both() -> (ActivationProfile, Vec<Capture>) {
    let checkpoint = Checkpoint::demo().expect("compiled in");
    let reference = Reference::without_noise(checkpoint.decoder(&|_, tensor| Ok(tensor)).expect("complete"));
    let found = profile(&checkpoint, reference.decoder(), &[record(0), record(1)], &|_| ()).expect("computes");
    let request = |token_ids| Request { token_ids, scopes: &[Scope::Base], continuation: Some(&[]), new_tokens: 0 };
    let mut captures = vec![Capture::new(Taps::All); 2];
    reference.run(&PROMPTS.map(request), &mut captures).expect("computes");
    (found, captures)
}

#[test]
fn a_profile_sums_up_what_the_reference_computes() {
    let (found, captures) = both();
    let tensors = |site| captures.iter().map(move |capture| &capture.scopes[&Scope::Base].sites[&site]);
    assert_eq!((found.tokens, found.prompts.len(), found.sites.len()), (12, 2, 4 * 15 + 3));
    for site in [Site::Embed, Site::Block(1, BlockSite::Act), Site::Block(3, BlockSite::ResidPost), Site::Logits] {
        let values: Vec<f64> = tensors(site).flat_map(|tensor| &tensor.values).map(|value| f64::from(*value)).collect();
        let own = &found.sites[&site];
        assert_eq!(own.values, values.len() as u64, "{site}");
        let (min, max) = values.iter().fold((0.0_f64, 0.0_f64), |(min, max), value| (min.min(*value), max.max(*value)));
        assert!((own.min - min).abs() < 1e-12 && (own.max - max).abs() < 1e-12, "{site}");
        // The largest is where the profile says.
        let peak = own.largest;
        let tensor = tensors(site).nth(peak.prompt).expect("a prompt");
        let there = f64::from(tensor.row(peak.position as usize)[peak.channel]);
        assert!((there - peak.value).abs() < 1e-12 && there.abs() >= min.abs().max(max) - 1e-12, "{site}");
        let by_position = own.by_position[1].expect("both prompts have it");
        let rows = tensors(site).flat_map(|tensor| tensor.row(1));
        let expected = rows.fold(0.0_f32, |largest, value| largest.max(value.abs()));
        assert!((by_position - f64::from(expected)).abs() < 1e-12, "{site}");
    }
}

#[test]
fn the_sink_is_the_mean_attention_to_the_first_token_of_rows_behind_it() {
    let (found, captures) = both();
    assert_eq!(found.sinks.len(), 4);
    for sink in &found.sinks {
        let (mut sum, mut count) = (0.0, 0.0);
        for capture in &captures {
            // `[position, head, key]`
            let pattern = &capture.scopes[&Scope::Base].sites[&Site::Block(sink.block, BlockSite::Pattern)];
            for position in 1..pattern.rows() {
                let heads = pattern.row(position).chunks_exact(pattern.shape[2]);
                count += pattern.shape[1] as f64;
                sum += heads.map(|head| f64::from(head[0])).sum::<f64>();
            }
        }
        assert!((sink.mean - sum / count).abs() < 1e-9, "block {}", sink.block);
        assert!(sink.head_mean >= sink.mean && sink.head < 8);
    }
}
