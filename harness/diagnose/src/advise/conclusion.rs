//! What an advice comes to, by verdicts on prompts that the search did not see.

use fidelity_trace::{CheckpointIdentity, Scope, Site};
use fidelity_verdict::{
    ADVICE_FORMAT, ADVICE_VERSION, Advice, AdviceConclusion, AdvicePrompts, AdviceProof, AdviceTarget, ExitCode,
    Outcome, Proven, Trial, Verdict,
};

/// The numbers of a verdict on the held-out prompts, of a recipe whose text has this digest.
#[must_use]
pub fn proven(verdict: &Verdict, recipe_sha256: &str, target: AdviceTarget) -> Proven {
    let scope = verdict.scopes.get(&Scope::Base);
    let judged = scope.and_then(|scope| scope.sites.get(&scope.judged_site));
    let sound = judged.filter(|site| site.non_finite_rows == 0);
    let logits = scope.is_some_and(|scope| scope.judged_site == Site::Logits);
    let similarity = sound.and_then(|site| if logits { site.pearson } else { site.centred_cosine });
    let top1 = sound.and_then(|site| site.logits.as_ref()?.top1.rate);
    let similar = similarity.is_some_and(|similarity| similarity.mean >= target.similarity);
    let agrees = target.top1.is_none_or(|limit| top1.is_some_and(|rate| rate >= limit));
    Proven {
        recipe_sha256: recipe_sha256.to_owned(),
        verdict: verdict.verdict,
        similarity: similarity.map(|similarity| similarity.mean),
        interval: similarity.and_then(|similarity| similarity.interval),
        top1,
        rows: scope.map_or(0, |scope| scope.coverage.rows_compared),
        // Too few rows, or a reference that cannot judge, prove nothing.
        reached: similar && agrees && verdict.verdict != Outcome::Inconclusive,
    }
}

/// The advice with its proof and what follows from it. Where what the search found does not hold on the unseen prompts, `everything`
/// is what everything promoted has there, and is advised in its place.
#[must_use]
pub fn conclude_advice(mut advice: Advice, mut proof: AdviceProof, everything: Option<Proven>) -> Advice {
    if let (Some(found), Some(proven), Some(all)) = (&proof.advised, everything, advice.everything.take()) {
        let kept = advice.advised.as_ref().map_or(0.0, |advised| advised.trial.bytes);
        advice.notes.push(format!(
            "the search gave back all but {:.1} kB a token and reached the target on its own prompts, but has {} on the unseen ones: everything \
             promoted is shown instead",
            kept / 1000.0,
            shown(found)
        ));
        advice.advised = Some(all);
        advice.kinds.iter_mut().for_each(|kind| kind.advised.clone_from(&kind.blocks));
        proof.advised = Some(proven);
    }
    let AdviceTarget { similarity, top1 } = advice.target;
    let target = match top1 {
        Some(top1) => format!("{similarity} (top-1 {top1})"),
        None => similarity.to_string(),
    };
    let judged = proof.advised.as_ref().unwrap_or(&proof.recipe);
    let from_to = match &proof.advised {
        Some(advised) => format!("{} → {}", shown(&proof.recipe), shown(advised)),
        None => shown(&proof.recipe),
    };
    let unseen = format!("{} unseen prompts", advice.prompts.held_out.len());
    let (conclusion, reason) = match (judged.verdict, judged.reached, &proof.advised) {
        (Outcome::Inconclusive, ..) => (AdviceConclusion::Inconclusive, format!("{unseen} decide nothing: {from_to}")),
        (_, true, None) => {
            let said = format!("the recipe as it is reaches {target} on {unseen} ({from_to}); nothing is advised");
            (AdviceConclusion::AlreadyReached, said)
        }
        (_, true, Some(_)) => (AdviceConclusion::Reached, format!("{from_to} on {unseen}, target {target}")),
        (_, false, None) => {
            let said = format!("{from_to} on {unseen}, below the target {target} that the search prompts reach");
            (AdviceConclusion::NotReached, said)
        }
        (_, false, Some(_)) => {
            let said = format!("the best that was found has {from_to} on {unseen}, below the target {target}");
            (AdviceConclusion::NotReached, said)
        }
    };
    let exit_code = match conclusion {
        AdviceConclusion::Reached | AdviceConclusion::AlreadyReached => ExitCode::Pass,
        AdviceConclusion::NotReached => ExitCode::FidelityFailure,
        AdviceConclusion::Inconclusive => ExitCode::Inconclusive,
    };
    Advice { conclusion, reason, exit_code: exit_code.code(), proof: Some(proof), ..advice }
}

fn shown(proven: &Proven) -> String {
    let value = proven.similarity.map_or_else(|| "undefined".to_owned(), |value| format!("{value:.4}"));
    let rate = proven.top1.map_or_else(String::new, |rate| format!(", top-1 {rate:.3}"));
    format!("{value}{rate}")
}

/// The advice where there are too few prompts for any.
#[must_use]
pub fn inconclusive_advice(
    checkpoint: CheckpointIdentity,
    [recipe, recipe_sha256, calibration]: [String; 3],
    target: AdviceTarget,
    prompts: AdvicePrompts,
    reason: String,
) -> Advice {
    Advice {
        format: ADVICE_FORMAT.to_owned(),
        version: ADVICE_VERSION,
        checkpoint,
        recipe,
        recipe_sha256,
        calibration,
        target,
        prompts,
        conclusion: AdviceConclusion::Inconclusive,
        reason,
        exit_code: ExitCode::Inconclusive.code(),
        of_recipe: Trial::default(),
        of_everything: Trial::default(),
        kinds: Vec::new(),
        steps: Vec::new(),
        sites: std::collections::BTreeMap::new(),
        remedies: Vec::new(),
        advised: None,
        everything: None,
        proof: None,
        trials: 0,
        notes: Vec::new(),
    }
}
