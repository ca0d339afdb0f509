//! `fidelity sweep`: a matrix of runs.

use fidelity_reports::printable;
use fidelity_verdict::ExitCode;

use crate::{
    args::SweepArgs,
    error::CliError,
    output::{Form, print},
    progress::Progress,
    run_folder::RunFolder,
    sweep::{FILE, Matrix, Runner, conclude},
};

pub(crate) fn sweep(args: &SweepArgs) -> Result<u8, CliError> {
    let matrix = Matrix::asked(args)?;
    let folder = RunFolder::create(args.output.out.as_deref(), "sweep")?;
    let path = folder.path();
    match path.join(FILE).exists() {
        true if !args.output.resume => return Err(CliError::SweepExists { folder: path.to_owned() }),
        true if Matrix::read(path)? != matrix => return Err(CliError::OtherSweep { folder: path.to_owned() }),
        true => {}
        false => matrix.write(path)?,
    }
    let own: Vec<usize> = matrix.own().collect();
    if let (Some(shard), true) = (matrix.shard, own.is_empty()) {
        // Nothing is said of any checkpoint; what the cells are together is said by `fidelity merge`.
        let place = printable(&path.display().to_string());
        print(&format!("shard {shard} is empty: there are {} cells · folder {place}\n", matrix.cells.len()));
        return Ok(ExitCode::Pass.code());
    }
    let progress = Progress::new(args.output.quiet);
    let mut runner = Runner::new(args, &matrix, path, &progress)?;
    let mut cells = Vec::new();
    for (done, index) in own.iter().enumerate() {
        let key = &matrix.cells[*index];
        progress.say(&format!(
            "cell {} of {}: {} {} {}",
            done + 1,
            own.len(),
            printable(&key.checkpoint),
            key.device,
            printable(&key.recipe)
        ));
        cells.push(runner.cell(*index)?);
    }
    conclude(&folder, &cells, Form::of(false, args.output.quiet))
}
