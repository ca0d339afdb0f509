//! How the build script finds HailoRT, and what it says where it does not.

use std::{fs, os::unix::fs::symlink, path::Path};

#[path = "../build/find.rs"]
mod find;

use find::{Installation, Problem, find};

/// Lays an installation out as HailoRT's installer does.
fn install(prefix: &Path, libraries: &str, headers: &str, library: &str) {
    let directory = prefix.join(libraries);
    fs::create_dir_all(prefix.join("include/hailo")).expect("created");
    fs::create_dir_all(directory.join("cmake/HailoRT")).expect("created");
    fs::write(prefix.join("include/hailo/infer_model.hpp"), "").expect("written");
    fs::write(directory.join(format!("libhailort.so.{library}")), "").expect("written");
    symlink(format!("libhailort.so.{library}"), directory.join("libhailort.so")).expect("linked");
    let version =
        format!("# generated\n  set(PACKAGE_VERSION \"{headers}\")\nif(PACKAGE_VERSION VERSION_LESS \"1\")\nendif()\n");
    fs::write(directory.join("cmake/HailoRT/HailoRTConfigVersion.cmake"), version).expect("written");
}

fn look(prefix: &Path) -> Result<Installation, Problem> {
    find(Some(prefix.display().to_string()), "aarch64")
}

fn problem(prefix: &Path) -> String {
    look(prefix).expect_err("it is not sound").to_string()
}

#[test]
fn libraries_are_found_in_every_usual_directory() {
    for libraries in ["lib", "lib64", "lib/aarch64-linux-gnu"] {
        let prefix = tempfile::tempdir().expect("a directory");
        install(prefix.path(), libraries, "5.2.0", "5.2.0");
        let found = look(prefix.path()).expect("it is sound");
        let root = prefix.path().canonicalize().expect("it exists");
        assert_eq!((found.include, found.libraries), (root.join("include"), root.join(libraries)));
        assert_eq!(found.version.to_string(), "5.2.0");
        assert!(found.library.ends_with("libhailort.so.5.2.0") && found.version_file.is_file());
    }
}

#[test]
fn nothing_installed_says_what_to_install_and_where_it_looked() {
    let prefix = tempfile::tempdir().expect("a directory");
    let text = problem(prefix.path());
    for part in
        ["HailoRT 5.1.0 or later", "include/hailo/infer_model.hpp", "Install the hailort package", "HAILORT_DIR="]
    {
        assert!(text.contains(part), "{part} in {text}");
    }
    assert!(text.contains(&prefix.path().canonicalize().expect("it exists").display().to_string()));
}

#[test]
fn a_part_that_is_missing_is_named() {
    let prefix = tempfile::tempdir().expect("a directory");
    install(prefix.path(), "lib", "5.2.0", "5.2.0");
    let version_file = prefix.path().join("lib/cmake/HailoRT/HailoRTConfigVersion.cmake");
    fs::write(&version_file, "no version\n").expect("written");
    assert!(problem(prefix.path()).contains("states no version"));
    fs::remove_file(&version_file).expect("removed");
    assert!(problem(prefix.path()).contains("cmake/HailoRT/HailoRTConfigVersion.cmake was not found"));
    fs::remove_file(prefix.path().join("lib/libhailort.so")).expect("removed");
    assert!(problem(prefix.path()).contains("libhailort.so was not found"));
}

#[test]
fn too_old_a_version_is_refused() {
    for (version, refused) in [("5.0.1", true), ("4.23.0", true), ("5.1.0", false), ("5.1.1", false), ("6.0.0", false)]
    {
        let prefix = tempfile::tempdir().expect("a directory");
        install(prefix.path(), "lib", version, version);
        match look(prefix.path()) {
            Ok(_) => assert!(!refused, "{version}"),
            Err(error) => assert!(refused && error.to_string().contains(&format!("HailoRT {version} in ")), "{error}"),
        }
    }
}

#[test]
fn headers_and_library_of_different_versions_are_refused() {
    let prefix = tempfile::tempdir().expect("a directory");
    install(prefix.path(), "lib", "5.2.0", "5.1.1");
    let text = problem(prefix.path());
    assert!(text.contains("headers are those of HailoRT 5.2.0") && text.contains("is 5.1.1"), "{text}");
}

#[test]
fn a_directory_that_cannot_be_meant_is_refused() {
    for path in ["target/standin", "/no/such/directory"] {
        let text = find(Some(path.to_owned()), "x86_64").expect_err("no such directory").to_string();
        assert!(text.starts_with(&format!("HAILORT_DIR={path}: ")) && text.contains("absolute path"), "{text}");
    }
}
