//! The C surface compiles without a warning: against the stand-in's headers, and against real ones where HAILORT_HEADERS names a folder with
//! an `include/hailo`, or with folders that have one.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

fn compile(include: &Path) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("cpp");
    for source in ["device.cpp", "group.cpp", "hef.cpp", "model.cpp"] {
        let compiler = env::var("CXX").unwrap_or_else(|_| "c++".into());
        let output = Command::new(&compiler)
            .args(["-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"])
            .args(["-DFID_HEADER_MAJOR=5", "-DFID_HEADER_MINOR=2", "-DFID_HEADER_REVISION=0"])
            .arg("-I")
            .arg(include)
            .arg(sources.join(source))
            .output()
            .unwrap_or_else(|error| panic!("{compiler}: {error}"));
        assert!(
            output.status.success(),
            "{source}, {}:\n{}",
            include.display(),
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

#[test]
fn it_compiles_against_the_stand_in() {
    compile(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../standin/include"));
}

#[test]
fn it_compiles_against_real_headers() {
    let Some(folder) = env::var_os("HAILORT_HEADERS").map(PathBuf::from) else {
        println!("not run: HAILORT_HEADERS names no folder of real headers");
        return;
    };
    let inside = fs::read_dir(&folder).expect("HAILORT_HEADERS is a folder").map(|entry| entry.expect("listed").path());
    let includes: Vec<_> = std::iter::once(folder)
        .chain(inside)
        .map(|path| path.join("include"))
        .filter(|path| path.join("hailo/infer_model.hpp").is_file())
        .collect();
    assert!(!includes.is_empty(), "HAILORT_HEADERS has no include/hailo/infer_model.hpp in it");
    for include in includes {
        compile(&include);
        println!("compiled against {}", include.display());
    }
}
