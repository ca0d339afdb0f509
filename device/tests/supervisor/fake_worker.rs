//! The worker of the tests: the real one over a fake chip, or something else altogether.

use std::{
    env, fs,
    io::{self, BufReader, Write},
    process::ExitCode,
    thread::sleep,
    time::Duration,
};

use fidelity_device::{
    chip::{ChipError, Device, Library, Versions},
    worker::{self, PROTOCOL, Reply, read_frame, write_frame},
};

use crate::fake_chip::{Call, FakeLibrary, Mishap};

pub(crate) fn run(mode: &str) -> ExitCode {
    match mode {
        "chip" => return worker::run(|| Some(Box::new(library()))),
        "two-chips" => return worker::run(|| Some(Box::new(TwoChips(library())))),
        "no-library" => return worker::run(|| None),
        "greets" => say(b"Welcome to this machine!\nLast login: today\n"),
        "old" => hello(PROTOCOL + 1),
        "closes" => {
            hello(PROTOCOL);
            // Whoever asks for the file to be opened finds the pipe closed.
            nix::unistd::close(1).expect("it is open");
        }
        "silent" => {}
        other => panic!("there is no mode {other}"),
    }
    sleep(Duration::from_secs(600));
    ExitCode::SUCCESS
}

fn say(bytes: &[u8]) {
    let mut stdout = io::stdout();
    stdout.write_all(bytes).and_then(|()| stdout.flush()).expect("the supervisor listens");
}

fn hello(protocol: u32) {
    read_frame(&mut BufReader::new(io::stdin())).expect("a frame").expect("not the end");
    let reply = Reply::Hello { protocol, version: "9.9.9".into() };
    write_frame(&mut io::stdout(), &reply, &[]).expect("the supervisor listens");
}

/// A chip with the mishaps of the command line: `CALL:AT:MISHAP`, each preceded by `-`, by a file that makes it happen once, or
/// by `@` and a file that keeps it from happening.
fn library() -> FakeLibrary {
    // A library that writes to stdout must not disturb the frames.
    say(b"[HailoRT] [info] noise on stdout\n");
    let words: Vec<String> = env::args().skip(3).collect();
    let mishaps = words.chunks(2).filter(|pair| happens(&pair[0])).map(|pair| mishap(&pair[1]));
    FakeLibrary::with(&mishaps.collect::<Vec<_>>())
}

/// The same with a second device.
struct TwoChips(FakeLibrary);

impl Library for TwoChips {
    fn versions(&self) -> Result<Versions, ChipError> {
        self.0.versions()
    }

    fn scan(&self) -> Result<Vec<String>, ChipError> {
        Ok([self.0.scan()?, vec!["0000:02:00.0".into()]].concat())
    }

    fn open(&self, id: &str) -> Result<Box<dyn Device>, ChipError> {
        self.0.open(id)
    }
}

fn happens(file: &str) -> bool {
    match file.strip_prefix('@') {
        Some(keeps) => !fs::exists(keeps).expect("it can be told"),
        None => file == "-" || fs::File::create_new(file).is_ok(),
    }
}

fn mishap(text: &str) -> (Call, usize, Mishap) {
    let words: Vec<&str> = text.split(':').collect();
    let call = match words[0] {
        "open" => Call::Open,
        "configure" => Call::Configure,
        "init" => Call::InitCache,
        "update" => Call::UpdateOffset,
        "run" => Call::Run,
        other => panic!("there is no call {other}"),
    };
    let number = || words[3].parse().expect("a number");
    let mishap = match words[2] {
        "status" => Mishap::Status(number()),
        "done" => Mishap::DoneButStatus(number()),
        "late" => Mishap::Late(number() as u64),
        "hang" => Mishap::Hang,
        "crash" => Mishap::Crash,
        other => panic!("there is no mishap {other}"),
    };
    (call, words[1].parse().expect("a number"), mishap)
}
