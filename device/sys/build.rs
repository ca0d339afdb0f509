//! With feature `hailo`: finds an installed HailoRT and compiles the C surface (`cpp/`) against it. Without: nothing.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "hailo")]
    hailo::build();
}

#[cfg(feature = "hailo")]
#[path = "build/find.rs"]
mod find;

#[cfg(feature = "hailo")]
mod hailo {
    use std::{env, path::Path, process};

    use super::find::{Version, find};

    const SOURCES: [&str; 4] = ["device.cpp", "group.cpp", "hef.cpp", "model.cpp"];
    const HEADERS: [&str; 3] = ["shim.h", "guard.hpp", "handles.hpp"];

    pub(crate) fn build() {
        println!("cargo:rerun-if-env-changed=HAILORT_DIR");
        println!("cargo:rerun-if-changed=build");
        for file in SOURCES.iter().chain(&HEADERS) {
            println!("cargo:rerun-if-changed=cpp/{file}");
        }
        let directory = env::var("HAILORT_DIR").ok().filter(|path| !path.is_empty());
        let architecture = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
        let found = find(directory, &architecture).unwrap_or_else(|problem| {
            for line in problem.to_string().lines() {
                println!("cargo::error={line}");
            }
            process::exit(1);
        });
        for file in [&found.version_file, &found.library] {
            println!("cargo:rerun-if-changed={}", file.display());
        }
        let Version([major, minor, revision]) = found.version;
        cc::Build::new()
            .cpp(true)
            .std("c++17")
            .warnings(true)
            .extra_warnings(true)
            // As those of a library: warnings in them are not ours.
            .flag("-isystem")
            .flag(&found.include)
            .define("FID_HEADER_MAJOR", major.to_string().as_str())
            .define("FID_HEADER_MINOR", minor.to_string().as_str())
            .define("FID_HEADER_REVISION", revision.to_string().as_str())
            .files(SOURCES.iter().map(|file| Path::new("cpp").join(file)))
            .compile("fidelity_hailort_shim");
        println!("cargo:rustc-link-search=native={}", found.libraries.display());
        println!("cargo:rustc-link-lib=dylib=hailort");
        if env::var_os("HAILORT_DIR").is_some() {
            // Where the loader does not look by itself. For the tests of this crate; others have DEP_HAILORT_LIBRARIES.
            println!("cargo:rustc-link-arg=-Wl,-rpath,{}", found.libraries.display());
        }
        // For build scripts of crates that depend on this one: DEP_HAILORT_LIBRARIES, DEP_HAILORT_VERSION.
        println!("cargo:libraries={}", found.libraries.display());
        println!("cargo:version={}", found.version);
    }
}
