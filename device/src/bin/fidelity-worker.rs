//! `fidelity-worker`: owns a device and answers `fidelity`, which starts it, over its standard streams.

use std::process::ExitCode;

const USAGE: &str = "fidelity-worker owns a Hailo device and answers fidelity over its standard streams.
It is started by fidelity: --worker fidelity-worker, or --worker 'ssh pi5 fidelity-worker'.

  --version   print the version and whether HailoRT is built in
  --help      print this
";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve(),
        ["--help" | "-h"] => print(USAGE),
        ["--version" | "-V"] => {
            let library = if cfg!(feature = "hailo") { "with HailoRT" } else { "without HailoRT" };
            print(&format!("fidelity-worker {} ({library})\n", env!("CARGO_PKG_VERSION")))
        }
        _ => {
            complain(&format!("it takes no arguments\n\n{USAGE}"));
            ExitCode::from(2)
        }
    }
}

#[cfg(unix)]
fn serve() -> ExitCode {
    use std::io::IsTerminal;
    if std::io::stdin().is_terminal() {
        complain(&format!("its stdin is a terminal\n\n{USAGE}"));
        return ExitCode::from(2);
    }
    fidelity_device::worker::run(library)
}

#[cfg(not(unix))]
fn serve() -> ExitCode {
    complain("it runs on Unix alone\n");
    ExitCode::from(2)
}

#[cfg(feature = "hailo")]
fn library() -> Option<Box<dyn fidelity_device::chip::Library>> {
    Some(Box::new(fidelity_device::hailo::HailoRt))
}

#[cfg(all(unix, not(feature = "hailo")))]
fn library() -> Option<Box<dyn fidelity_device::chip::Library>> {
    None
}

fn print(text: &str) -> ExitCode {
    use std::io::Write;
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn complain(text: &str) {
    use std::io::Write;
    // Nobody can be told that nobody listens.
    let _ = write!(std::io::stderr(), "fidelity-worker: {text}");
}
