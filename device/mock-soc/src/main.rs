//! The mock as a program: compiles a checkpoint into a HEF, and serves as the chip that runs it.

use std::{
    fs::{self, File},
    io::{self, Write},
    net::Ipv4Addr,
    path::PathBuf,
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Parser, Subcommand};
use fidelity_mock_soc::{
    Checkpoint, DEFAULT_PORT, Fault, Groups, HefOptions, InputOrder, MaskConvention, Misbehaviour, MockSoc, Options,
    Rotation, Version, Width, build,
};

/// A Hailo-10H on loopback, for tests
#[derive(Parser)]
#[command(version, max_term_width = 80)]
struct Program {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Compile a checkpoint of the Llama architecture into a HEF
    WriteHef(WriteHef),
    /// Listen, and run the HEF files that clients send
    Serve(Serve),
}

#[derive(Args)]
struct WriteHef {
    /// Folder with config.json, model.safetensors and tokenizer.json
    #[arg(long, value_name = "DIR")]
    checkpoint: PathBuf,
    /// The file to write
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Which network groups it has
    #[arg(long, value_enum, default_value = "prefill-and-tbt")]
    groups: Groups,
    /// Rows of a prefill run; without caches, of a whole sequence
    #[arg(long, value_name = "P", default_value_t = 8)]
    rows: usize,
    /// Length of the caches, in tokens
    #[arg(long, value_name = "L", default_value_t = 64)]
    cache: usize,
    /// Outputs that share the logits
    #[arg(long, value_name = "N", default_value_t = 4)]
    shards: usize,
    /// Bits of the logits
    #[arg(long, value_enum, default_value = "16", value_name = "BITS")]
    logits: Width,
    /// Bits of cos and sin
    #[arg(long, value_enum, default_value = "16", value_name = "BITS")]
    rope: Width,
    /// How the mask is quantised
    #[arg(long, value_enum, default_value = "official")]
    mask: MaskConvention,
    /// Which of the inputs 3 to 6 is which
    #[arg(long, value_enum, default_value = "official")]
    inputs: InputOrder,
    /// Where the sign of the rotation is
    #[arg(long, value_enum, default_value = "sign-in-table")]
    rotation: Rotation,
    /// Give the logits of every row of prefill, not of the last alone
    #[arg(long)]
    every_row: bool,
}

#[derive(Args)]
struct Serve {
    /// Where to listen: any 127.x.y.z
    #[arg(long, value_name = "IPV4", default_value = "127.0.0.1")]
    address: Ipv4Addr,
    /// The port that clients of HailoRT connect to
    #[arg(long, default_value_t = DEFAULT_PORT)]
    port: u16,
    /// What becomes of requests: hang, unanswered, crash[=MS until it is back],
    /// status=N, late=MS, instant or close-link, with @ACTION[:N-TH], such as
    /// hang@run:3; or busy (repeatable)
    #[arg(long, value_name = "CONDUCT@ACTION")]
    misbehave: Vec<Misbehaviour>,
    /// What is computed wrongly (repeatable)
    #[arg(long, value_enum)]
    fault: Vec<Fault>,
    /// Every answer waits so long; libhailort 5.2 itself needs 10
    #[arg(long, value_name = "MS", default_value_t = 0)]
    delay_ms: u64,
    /// How long a client waits for a device in use before it is told
    #[arg(long, value_name = "MS", default_value_t = 5000)]
    busy_wait_ms: u64,
    /// The version of firmware it says it has
    #[arg(long, value_name = "X.Y.Z", default_value = "5.2.0")]
    firmware: Version,
    /// Write what happens there, one JSON object a line
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
}

/// What `serve` ends with when the chip crashed for good: `EX_SOFTWARE`.
const CRASHED: u8 = 70;

fn main() -> ExitCode {
    let done = match Program::parse().command {
        Command::WriteHef(args) => write_hef(&args),
        Command::Serve(args) => serve(args),
    };
    done.unwrap_or_else(|message| {
        // Nothing can be done about a closed standard error.
        let _ = writeln!(io::stderr(), "error: {message}");
        ExitCode::from(2)
    })
}

fn write_hef(args: &WriteHef) -> Result<ExitCode, String> {
    let checkpoint = Checkpoint::read(&args.checkpoint).map_err(|error| error.to_string())?;
    let options = HefOptions {
        groups: args.groups,
        rows: args.rows,
        cache: args.cache,
        shards: args.shards,
        logits: args.logits,
        rope: args.rope,
        mask: args.mask,
        inputs: args.inputs,
        rotation: args.rotation,
        every_row: args.every_row,
        logits_range: None,
    };
    let hef = build(&checkpoint, &options).map_err(|error| error.to_string())?;
    fs::write(&args.out, &hef).map_err(|error| format!("{}: {error}", args.out.display()))?;
    say(&format!("{}: {} bytes", args.out.display(), hef.len()))?;
    Ok(ExitCode::SUCCESS)
}

fn serve(args: Serve) -> Result<ExitCode, String> {
    if !args.address.is_loopback() {
        return Err(format!("--address {}: only loopback (127.x.y.z), it is a mock", args.address));
    }
    let log = match &args.log {
        Some(path) => Some(File::create(path).map_err(|error| format!("{}: {error}", path.display()))?),
        None => None,
    };
    let options = Options {
        port: args.port,
        delay: Duration::from_millis(args.delay_ms),
        busy_wait: Duration::from_millis(args.busy_wait_ms),
        firmware: args.firmware,
        misbehaviours: args.misbehave,
        faults: args.fault,
        log,
        ..Options::at(args.address)
    };
    let (address, port) = (args.address, args.port);
    let mock = MockSoc::start(options).map_err(|error| format!("{address}:{port}: {error}"))?;
    say(&format!("listening on {}", mock.address()))?;
    mock.wait();
    Ok(ExitCode::from(CRASHED))
}

fn say(line: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|error| format!("standard output: {error}"))
}
