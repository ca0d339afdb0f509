//! The table of crates in docs/ARCHITECTURE.md, held.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
};

use cargo_metadata::{DependencyKind, MetadataCommand};

/// Crate and what of ours it may use, as docs/ARCHITECTURE.md says. A new edge changes both.
const EDGES: [(&str, &[&str]); 14] = [
    ("fidelity-trace", &[]),
    ("fidelity-verdict", &["fidelity-trace"]),
    ("fidelity-device", &["fidelity-hailort-sys", "fidelity-trace"]),
    ("fidelity-hef-writer", &[]),
    ("fidelity-hailort-sys", &[]),
    ("fidelity-mock-soc", &["fidelity-device", "fidelity-hef-writer"]),
    ("fidelity-references", &["fidelity-trace"]),
    ("fidelity-emulator", &["fidelity-references", "fidelity-trace"]),
    ("fidelity-compare", &["fidelity-trace", "fidelity-verdict"]),
    (
        "fidelity-diagnose",
        &["fidelity-compare", "fidelity-emulator", "fidelity-references", "fidelity-trace", "fidelity-verdict"],
    ),
    ("fidelity-history", &["fidelity-trace", "fidelity-verdict"]),
    ("fidelity-reports", &["fidelity-trace", "fidelity-verdict"]),
    (
        "fidelity",
        &[
            "fidelity-compare",
            "fidelity-device",
            "fidelity-diagnose",
            "fidelity-emulator",
            "fidelity-history",
            "fidelity-references",
            "fidelity-reports",
            "fidelity-trace",
            "fidelity-verdict",
        ],
    ),
    ("fidelity-demo-trainer", &[]),
];

/// Crates that must stay free of tensors.
const WITHOUT_CANDLE: [&str; 8] = [
    "fidelity-trace",
    "fidelity-verdict",
    "fidelity-device",
    "fidelity-hailort-sys",
    "fidelity-mock-soc",
    "fidelity-compare",
    "fidelity-history",
    "fidelity-reports",
];

#[test]
fn crates_use_only_what_the_architecture_allows() {
    let metadata = MetadataCommand::new().no_deps().exec().expect("cargo metadata");
    let found: BTreeMap<_, BTreeSet<_>> = metadata
        .workspace_packages()
        .iter()
        .map(|package| {
            let normal = package.dependencies.iter().filter(|dependency| dependency.kind == DependencyKind::Normal);
            (package.name.to_string(), normal.map(|dependency| dependency.name.clone()).collect())
        })
        .collect();
    assert_eq!(found.len(), EDGES.len(), "a crate is missing from this table: {:?}", found.keys());
    for (name, allowed) in EDGES {
        let ours: Vec<_> = found[name].iter().filter(|name| name.starts_with("fidelity")).collect();
        assert_eq!(ours, allowed, "{name}");
    }
    for name in WITHOUT_CANDLE {
        assert!(!found[name].iter().any(|dependency| dependency.starts_with("candle")), "{name}");
    }
}

/// Not even through a crate that they use.
#[test]
fn what_must_build_without_candle_does() {
    // `cargo metadata` would ask for the crates of every platform.
    let built = |name: &str| {
        let arguments = ["tree", "--offline", "--prefix", "none", "--edges", "normal,build", "--package", name];
        let output = Command::new(env!("CARGO")).args(arguments).output().expect("cargo starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let has_candle = |name| built(name).lines().any(|line| line.starts_with("candle"));
    for name in WITHOUT_CANDLE {
        assert!(built(name).starts_with(name) && !has_candle(name), "{name}");
    }
    // It is seen where it is.
    assert!(has_candle("fidelity-references") && has_candle("fidelity"));
}

#[test]
fn the_table_in_the_document_is_the_one_held_here() {
    let document = include_str!("../../../../docs/ARCHITECTURE.md");
    for (name, allowed) in EDGES {
        let row = document.lines().find(|line| line.contains(&format!("`{name}`")) && line.starts_with('|'));
        let row = row.unwrap_or_else(|| panic!("{name} has no row in docs/ARCHITECTURE.md"));
        let last = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
        let stated: BTreeSet<_> =
            last.split(',').map(|name| name.trim().trim_matches('`')).filter(|name| *name != "–").collect();
        let short: BTreeSet<_> = allowed.iter().map(|name| name.trim_start_matches("fidelity-")).collect();
        assert_eq!(stated, short, "{name}");
    }
}
