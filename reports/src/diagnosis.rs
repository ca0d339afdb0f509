//! Why an arm is wrong, in words, for the formats that show it.

use fidelity_trace::{FaultFamily, Scope};
use fidelity_verdict::{CLEAN, Candidate, Diagnosis, Margin, Outcome, UNEXPLAINED, Verdict};

use crate::{
    numbers::{ABSENT, correlation, magnitude},
    text::printable,
};

/// What `predicted_by` says of the float32 reference; anything else is an emulator of a recipe.
const REFERENCE: &str = "reference";

/// What was found: `clean`, `unexplained` or the fault as `--fault` takes it.
pub(crate) fn label(diagnosis: &Diagnosis) -> String {
    let block = diagnosis.block.map_or_else(String::new, |block| format!("@{block}"));
    let parameter = diagnosis.parameter.as_ref().map_or_else(String::new, |value| format!("={value}"));
    printable(&format!("{}{block}{parameter}", diagnosis.name))
}

/// The same in words.
pub(crate) fn title(verdict: &Verdict, diagnosis: &Diagnosis) -> String {
    match diagnosis.name.as_str() {
        CLEAN if verdict.is_of_the_recipe() => "no fault but the recipe".to_owned(),
        CLEAN => "no fault".to_owned(),
        UNEXPLAINED => "unexplained".to_owned(),
        name => {
            let value = diagnosis.parameter.as_ref().map_or_else(String::new, |value| format!(" = {value}"));
            let block = diagnosis.block.map_or_else(String::new, |block| format!(" in block {block}"));
            let family = diagnosis.family.map_or_else(String::new, |family| format!(" ({})", of_family(family)));
            printable(&format!("{name}{value}{block}{family}"))
        }
    }
}

/// What the last line of a run says of it.
pub(crate) fn cause(verdict: &Verdict) -> Option<String> {
    let diagnosis = verdict.diagnosis.as_ref()?;
    let alone = if verdict.is_of_the_recipe() { ", the recipe alone predicts it" } else { "" };
    Some(format!("diagnosed {}{alone}", label(diagnosis)))
}

/// What it comes to in one sentence, and the numbers behind it.
pub(crate) fn reason(diagnosis: &Diagnosis) -> String {
    let sentence = printable(diagnosis.sentence.trim_end_matches('.'));
    let closest = if diagnosis.name == UNEXPLAINED { "the closest prediction has " } else { "" };
    match diagnosis.score {
        Some(score) => format!("{sentence}; {closest}Pearson {}", correlation(score)),
        None => sentence,
    }
}

const fn of_family(family: FaultFamily) -> &'static str {
    match family {
        FaultFamily::At => "attention's wiring",
        FaultFamily::Rp => "rotary embedding",
        FaultFamily::Sw => "sliding window",
        FaultFamily::Tk => "token ids",
        FaultFamily::Wt => "weights and where they go",
        FaultFamily::Cf => "constants of the configuration",
        FaultFamily::Ac => "activation function",
        FaultFamily::Out => "output contract",
        FaultFamily::Kv => "KV-cache",
        FaultFamily::Qn => "quantisation",
        FaultFamily::Nm => "range of floating-point numbers",
    }
}

/// A line of the table of explanations.
pub(crate) struct Explanation {
    pub(crate) fault: String,
    pub(crate) score: String,
    pub(crate) residual: String,
    /// Whether it is the fault that the diagnosis names.
    pub(crate) named: bool,
}

/// The explanations tried, best first; that nothing is wrong is always among them.
pub(crate) fn explanations(diagnosis: &Diagnosis) -> Vec<Explanation> {
    let clean = &diagnosis.clean;
    let listed = diagnosis.ranked.iter().any(|candidate| candidate.name == clean.name);
    let all = diagnosis.ranked.iter().chain((!listed).then_some(clean));
    all.map(|candidate| explanation(diagnosis, candidate)).collect()
}

fn explanation(diagnosis: &Diagnosis, candidate: &Candidate) -> Explanation {
    Explanation {
        fault: printable(&candidate.fault),
        score: correlation(candidate.score),
        residual: magnitude(candidate.residual),
        named: diagnosis.names_a_fault() && candidate.name == diagnosis.name,
    }
}

/// Everything else that is one line, with what it is called.
pub(crate) fn facts(diagnosis: &Diagnosis) -> Vec<(&'static str, String)> {
    let all = [
        ("predicted by", Some(predicted_by(diagnosis))),
        ("runner-up", diagnosis.runner_up.as_ref().map(|next| behind(next, diagnosis.margin.as_ref()))),
        ("same here", Some(diagnosis.equivalent.join(", ")).filter(|same| !same.is_empty())),
        ("first bad", first_bad(diagnosis)),
    ];
    all.into_iter().filter_map(|(name, text)| Some((name, printable(&text?)))).collect()
}

fn predicted_by(diagnosis: &Diagnosis) -> String {
    let passes = format!("{} passes over the rows compared", magnitude(diagnosis.passes));
    match diagnosis.predicted_by.as_str() {
        REFERENCE => format!("the float32 reference, {passes}"),
        emulator => format!("the {emulator} with each fault, {passes}"),
    }
}

fn behind(runner_up: &Candidate, margin: Option<&Margin>) -> String {
    let margin = margin.map_or_else(String::new, |margin| {
        let error = margin.standard_error.map_or_else(
            || "no standard error with one prompt".to_owned(),
            |error| format!("standard error {} over {} prompts", magnitude(error), margin.prompts),
        );
        format!(", its residual larger by {} ({error})", magnitude(margin.difference))
    });
    format!("{}{margin}", runner_up.fault)
}

fn first_bad(diagnosis: &Diagnosis) -> Option<String> {
    let bad = diagnosis.first_bad_site.as_ref()?;
    let after = bad.after.map_or_else(String::new, |site| format!(", after {site}, which is right"));
    Some(format!("{} in {}{after}", bad.site, bad.scope))
}

/// A scope of the pattern.
pub(crate) struct ScopeError {
    pub(crate) scope: String,
    pub(crate) nmse: String,
    /// What was concluded of it.
    pub(crate) verdict: Option<Outcome>,
}

/// Which scopes are wrong, and by how much.
pub(crate) fn scopes(verdict: &Verdict, diagnosis: &Diagnosis) -> Vec<ScopeError> {
    let of = |(scope, nmse): (&Scope, &f64)| ScopeError {
        scope: scope.to_string(),
        nmse: magnitude(*nmse),
        verdict: verdict.scopes.get(scope).map(|result| result.verdict),
    };
    diagnosis.scopes.iter().map(of).collect()
}

/// A scope's verdict, or that it has none.
pub(crate) fn verdict_of(scope: &ScopeError) -> &'static str {
    scope.verdict.map_or(ABSENT, Outcome::name)
}
