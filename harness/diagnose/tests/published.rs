//! The published table: read, and what it proves.

use fidelity_diagnose::{PUBLISHED, explain, read_results};
use fidelity_trace::Registry;
use fidelity_verdict::{Covariate, GroupExplanation, Prediction};

fn greedy_text() -> GroupExplanation {
    let rows = read_results(PUBLISHED, "published.csv").expect("valid");
    let explanation = explain(&rows, "published.csv").expect("something to explain");
    let mut groups = explanation.groups.into_iter().filter(|group| group.key.measured == "greedy text");
    let group = groups.next().expect("published");
    assert!(groups.next().is_none(), "one device, recipe and scope");
    group
}

#[test]
fn two_coherent_against_six_is_no_evidence_for_the_hidden_size() {
    let group = greedy_text();
    assert_eq!((group.passed.len(), group.failed.len()), (2, 6));
    let hidden = group.tested.iter().find(|test| test.covariate == Covariate::Hidden).expect("tested");
    let separation = hidden.separation.expect("it separates");
    assert_eq!((separation.fails_above, separation.low, separation.high), (true, 288.0, 576.0));
    let p = hidden.p.expect("tested");
    assert!((p - 1.0 / 14.0).abs() < 1e-15, "{p}");
    assert!(hidden.p_adjusted.is_some_and(|adjusted| adjusted > p));
    assert!(group.labels.is_some_and(|permutations| permutations.exact && permutations.count == 28));
    assert!(group.conclusion.contains("not evidence"), "{}", group.conclusion);
    assert!(group.open.iter().any(|open| open.contains("2/28")), "{:?}", group.open);
}

#[test]
fn the_number_of_parameters_explains_it_as_well() {
    let group = greedy_text();
    let together = |a, b| group.confounded.iter().any(|pair| (pair.a, pair.b, pair.both_separate) == (a, b, true));
    assert!(together(Covariate::Hidden, Covariate::Parameters), "{:?}", group.confounded);
    let unknown: Vec<_> = group.unknown.iter().map(|(covariate, _)| *covariate).collect();
    assert!(unknown.contains(&Covariate::MassiveRatio) && unknown.contains(&Covariate::SwigluRange));
    assert!(group.tested.iter().all(|test| test.covariate != Covariate::MassiveRatio));
}

#[test]
fn the_next_experiment_is_one_of_which_the_hypotheses_say_different_things() {
    let group = greedy_text();
    let next = group.next.first().expect("there is one");
    let of = |wanted: &str| next.predictions.iter().find(|(name, _)| name == wanted).map(|(_, prediction)| *prediction);
    assert_eq!(of("hidden"), Some(Prediction::Fails), "{next:?}");
    assert_eq!(
        (of("parameters"), of("something else")),
        (Some(Prediction::Open), Some(Prediction::Passes)),
        "{next:?}"
    );
    assert!(next.command.starts_with("fidelity forge --checkpoint tinyllama-15m --widen 576"), "{}", next.command);
}

#[test]
fn every_published_checkpoint_is_one_of_the_registry() {
    let registry = Registry::parse(include_str!("../../../checkpoints.toml"), "checkpoints.toml").expect("valid");
    for row in read_results(PUBLISHED, "published.csv").expect("valid") {
        let own = registry.row(&row.checkpoint).expect("in checkpoints.toml");
        assert_eq!(own.source.to_string(), row.source, "{}", row.checkpoint);
    }
}

#[test]
fn rows_of_another_scope_recipe_or_device_are_not_pooled() {
    let head = "checkpoint,device,recipe,recipe_sha256,scope,outcome,hidden\n";
    let rows = "a,emulator,a8w8,x,base,pass,1\nb,emulator,a8w8,x,tbt,fail,2\nc,emulator,a8w4,x,base,fail,3\nd,hailo,a8w8,x,base,fail,4\n\
                e,emulator,a8w8,y,base,fail,5\n";
    let rows = read_results(&format!("{head}{rows}"), "r.csv").expect("valid");
    let explanation = explain(&rows, "r.csv").expect("explained");
    assert_eq!(explanation.groups.len(), 5);
    assert!(explanation.groups.iter().all(|group| group.passed.len() + group.failed.len() == 1));
}

#[test]
fn a_checkpoint_is_one_observation() {
    let head = "checkpoint,device,recipe,scope,outcome,hidden\n";
    let explained = |rows: &str| explain(&read_results(&format!("{head}{rows}"), "r.csv").expect("valid"), "r.csv");
    let twice = explained("a,e,r,base,pass,1\na,e,r,base,pass,1\n").expect_err("refused").to_string();
    assert!(twice.starts_with("r.csv:3: checkpoint `a` stands in line 2 as well"), "{twice}");
    assert!(explained("a,e,r,base,pass,1\na,e,r,tbt,pass,1\n").is_ok());
    assert!(explained("a,e,r,base,,1\n").expect_err("refused").to_string().contains("nothing to explain"));
    assert!(explained("").is_err());
}

#[test]
fn enough_checkpoints_are_evidence_for_one_covariate_and_not_for_another() {
    let rows = (0..16).map(|index| {
        format!(
            "c{index},e,r,base,{},{},{}\n",
            if index < 8 { "pass" } else { "fail" },
            64 * (index + 1),
            index * 7 % 16
        )
    });
    let text = format!("checkpoint,device,recipe,scope,outcome,hidden,layers\n{}", rows.collect::<String>());
    let explanation = explain(&read_results(&text, "r.csv").expect("valid"), "r.csv").expect("explained");
    let tested = &explanation.groups[0].tested;
    assert!(
        tested[0].p_adjusted.is_some_and(|p| p < 0.001) && tested[1].p_adjusted.is_some_and(|p| p > 0.05),
        "{tested:?}"
    );
    assert!(explanation.groups[0].conclusion.contains("an association"), "{}", explanation.groups[0].conclusion);
}

#[test]
fn a_correlation_has_an_interval_only_with_enough_checkpoints() {
    let correlations = |count: u32| {
        let rows = (0..count).map(|index| {
            format!("c{index},e,r,base,,{},{}\n", 0.99 - f64::from(index * 7 % count) / 100.0, 64 * (index + 1))
        });
        let text = format!("checkpoint,device,recipe,scope,outcome,pearson,hidden\n{}", rows.collect::<String>());
        let explanation = explain(&read_results(&text, "r.csv").expect("valid"), "r.csv").expect("explained");
        explanation.groups[0].tested[0].spearman.expect("defined")
    };
    assert_eq!(correlations(19).interval, None);
    let [low, high] = correlations(20).interval.expect("enough");
    let value = correlations(20).value;
    assert!(low < value && value < high);
}
