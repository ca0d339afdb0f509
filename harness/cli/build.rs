//! With feature `hailo`: an installation of `HailoRT` that was named may be where the loader does not look by itself.

use std::{env, path::Path};

fn main() {
    println!("cargo:rerun-if-env-changed=HAILORT_DIR");
    if let (Some(_), Some(prefix)) = (env::var_os("CARGO_FEATURE_HAILO"), env::var_os("HAILORT_DIR")) {
        let multiarch = format!("lib/{}-linux-gnu", env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default());
        for folder in ["lib", &multiarch, "lib64"] {
            println!("cargo:rustc-link-arg-bins=-Wl,-rpath,{}", Path::new(&prefix).join(folder).display());
        }
    }
}
