//! Every row of the checklist has a test.

const SOURCES: [&str; 6] = [
    include_str!("containers.rs"),
    include_str!("groups.rs"),
    include_str!("protobuf.rs"),
    include_str!("resources.rs"),
    include_str!("sparse.rs"),
    include_str!("streams.rs"),
];
const DOCUMENT: &str = include_str!("../../../docs/AUDIT.md");

#[test]
fn no_row_is_without_a_test() {
    for row in 1..=40 {
        let name = format!("fn row_{row:02}_");
        assert!(SOURCES.iter().any(|source| source.contains(&name)), "no test is called row_{row:02}_…");
        assert!(DOCUMENT.contains(&format!("| {row} |")), "docs/AUDIT.md has no row {row}");
    }
}
