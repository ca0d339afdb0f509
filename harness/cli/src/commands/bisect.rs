//! `fidelity bisect`: where along an axis an arm begins to be wrong.

use fidelity_diagnose::{Bisecting, bisect as bisected, measurement};
use fidelity_reports::{bisection_line, bisection_terminal};
use fidelity_verdict::{BisectionAxis, ExitCode, Finding};

use crate::{
    args::BisectArgs,
    bisecting::Bench,
    device::Device,
    error::CliError,
    output::{Form, print, style},
    progress::Progress,
    resources,
    run_folder::RunFolder,
};

pub(crate) fn bisect(args: &BisectArgs) -> Result<u8, CliError> {
    let progress = Progress::new(args.quiet || args.json);
    let device = Device::asked(&args.arm)?;
    if let Device::Replay(trace) = device {
        return Err(CliError::BisectReplay { trace });
    }
    let folder = RunFolder::create(args.out.as_deref(), "bisect")?;
    let mut bench = Bench::new(args, device == Device::Hailo, folder.path(), &progress)?;
    let sizes = bench.sizes()?;
    let asked = Bisecting {
        by: args.by,
        block: args.block,
        sizes: &sizes,
        threshold: args.threshold,
        repeats: device == Device::Hailo,
        budget: args.budget.get(),
    };
    let mut bisection = bisected(&asked, &mut |size| bench.measure(size))?;
    if let (Finding::Threshold, BisectionAxis::Block, Some(first_bad)) =
        (bisection.finding, bisection.by, bisection.first_bad)
    {
        let reading = bench.without(first_bad - 1)?;
        bisection.skipped = reading.map(|reading| measurement(first_bad - 1, &reading, args.threshold, false));
    }
    let json = serde_json::to_string_pretty(&bisection).unwrap_or_default() + "\n";
    resources::write(&folder.path().join("bisection.json"), &json)?;
    let line = bisection_line(&bisection, folder.wall_time(), folder.path()) + "\n";
    print(&match Form::of(args.json, args.quiet) {
        Form::Json => json,
        Form::Line => line,
        Form::Tables => format!("{}\n{line}", bisection_terminal(&bisection, style())),
    });
    Ok(match bisection.finding {
        Finding::NeverBad => ExitCode::Pass,
        Finding::Undecided => ExitCode::Inconclusive,
        Finding::Threshold | Finding::Interval | Finding::AlwaysBad | Finding::NotMonotone => ExitCode::FidelityFailure,
    }
    .code())
}
