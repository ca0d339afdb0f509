//! Finds HailoRT where its installer puts it: `include/hailo`, `libhailort.so` and `cmake/HailoRT/HailoRTConfigVersion.cmake` in a
//! directory of libraries (hailort/libhailort/src/CMakeLists.txt of HailoRT 5.2.0). Used by the build script, and by tests of it.

use std::{
    fmt, fs, io,
    path::{Path, PathBuf},
};

/// Where to look without `HAILORT_DIR`.
const PREFIXES: [&str; 4] = ["/usr", "/usr/local", "/opt/hailo", "/opt/hailort"];
/// The first with what is used: `get_external_resources(name)` and `set_enable_kv_cache`.
const OLDEST: Version = Version([5, 1, 0]);

/// Why there is nothing to build with. Every one says what to do.
#[derive(Debug)]
pub(crate) enum Problem {
    NotFound { looked: Vec<PathBuf>, missing: String },
    Unreadable { path: PathBuf, source: io::Error },
    NoVersion { path: PathBuf },
    TooOld { found: Version, prefix: PathBuf },
    Mismatch { headers: Version, library: Version, path: PathBuf },
    Directory { path: String, source: io::Error },
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound { looked, missing } => write!(
                f,
                "feature `hailo` needs HailoRT {OLDEST} or later with its headers, but {missing} was not found in {}.\n\
                 Install the hailort package of the Hailo Developer Zone (on Raspberry Pi OS: `sudo apt install hailo-h10-all`), or say where \
                 it is installed: HAILORT_DIR=/prefix, with include/hailo and lib/libhailort.so under it.",
                looked.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
            ),
            Self::Unreadable { path, source } => write!(f, "cannot read {}: {source}", path.display()),
            Self::NoVersion { path } => write!(
                f,
                "{} states no version (set(PACKAGE_VERSION \"5.2.0\")); HailoRT's headers state none either. Reinstall HailoRT.",
                path.display()
            ),
            Self::TooOld { found, prefix } => write!(
                f,
                "HailoRT {found} in {} is too old: feature `hailo` needs {OLDEST} or later. Install a later HailoRT, library and driver.",
                prefix.display()
            ),
            Self::Mismatch { headers, library, path } => write!(
                f,
                "the headers are those of HailoRT {headers}, but {} is {library}. Install both from one package, or point HAILORT_DIR at a \
                 prefix that holds both.",
                path.display()
            ),
            Self::Directory { path, source } => {
                write!(f, "HAILORT_DIR={path}: {source}. It must be an absolute path of an installed HailoRT.")
            }
        }
    }
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Installation {
    /// Holds `hailo/`.
    pub(crate) include: PathBuf,
    /// Holds `libhailort.so`.
    pub(crate) libraries: PathBuf,
    pub(crate) version: Version,
    /// What decided.
    pub(crate) version_file: PathBuf,
    pub(crate) library: PathBuf,
}

/// Looks in this directory, or where HailoRT usually is, for libraries of this architecture.
pub(crate) fn find(directory: Option<String>, architecture: &str) -> Result<Installation, Problem> {
    let prefixes = match directory {
        Some(path) => vec![named(path)?],
        None => PREFIXES.iter().map(PathBuf::from).collect(),
    };
    // The first prefix with headers decides: what it lacks is then said, rather than what the last one lacks.
    let chosen = prefixes.iter().find(|prefix| prefix.join("include/hailo/infer_model.hpp").is_file());
    let Some(prefix) = chosen else {
        return Err(Problem::NotFound { looked: prefixes, missing: "include/hailo/infer_model.hpp".into() });
    };
    let directories = library_directories(prefix, architecture);
    let place = |file: &str| {
        let found = directories.iter().map(|path| path.join(file)).find(|path| path.exists());
        found.ok_or_else(|| Problem::NotFound { looked: directories.clone(), missing: file.into() })
    };
    let link = place("libhailort.so")?;
    let version_file = place("cmake/HailoRT/HailoRTConfigVersion.cmake")?;
    let text = fs::read_to_string(&version_file)
        .map_err(|source| Problem::Unreadable { path: version_file.clone(), source })?;
    let Some(version) = stated(&text) else {
        return Err(Problem::NoVersion { path: version_file });
    };
    if version < OLDEST {
        return Err(Problem::TooOld { found: version, prefix: prefix.clone() });
    }
    let library = link.canonicalize().map_err(|source| Problem::Unreadable { path: link.clone(), source })?;
    // The installed file is named by its version. Asked again of the library when it is loaded.
    let name = library.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match name.strip_prefix("libhailort.so.").and_then(parse) {
        Some(found) if found != version => Err(Problem::Mismatch { headers: version, library: found, path: library }),
        _ => {
            let libraries = link.parent().unwrap_or(prefix).to_owned();
            Ok(Installation { include: prefix.join("include"), libraries, version, version_file, library })
        }
    }
}

fn named(path: String) -> Result<PathBuf, Problem> {
    let directory = Path::new(&path);
    if !directory.is_absolute() {
        let source = io::Error::new(io::ErrorKind::InvalidInput, "the path is relative");
        return Err(Problem::Directory { path, source });
    }
    directory.canonicalize().map_err(|source| Problem::Directory { path, source })
}

/// Where CMake's GNUInstallDirs may put libraries.
fn library_directories(prefix: &Path, architecture: &str) -> Vec<PathBuf> {
    let multiarch = format!("lib/{architecture}-linux-gnu");
    ["lib", multiarch.as_str(), "lib64"].iter().map(|path| prefix.join(path)).collect()
}

/// A version of three numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(pub(crate) [u32; 3]);

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self([major, minor, revision]) = self;
        write!(f, "{major}.{minor}.{revision}")
    }
}

/// `5.2.0`.
fn parse(text: &str) -> Option<Version> {
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    let version = Version([numbers.next()??, numbers.next()??, numbers.next()??]);
    numbers.next().is_none().then_some(version)
}

/// What `set(PACKAGE_VERSION "5.2.0")` of a CMake version file says.
fn stated(text: &str) -> Option<Version> {
    text.lines().find_map(|line| {
        let value = line.trim().strip_prefix("set(PACKAGE_VERSION")?.trim_start().strip_prefix('"')?;
        parse(value.split('"').next()?)
    })
}
