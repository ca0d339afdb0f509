//! Shards of a sweep, joined: their cells' folders and rows, in the order of the matrix.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use fidelity_verdict::Cell;

use crate::{
    args::{MergeArgs, Slice},
    error::CliError,
    output::Form,
    run_folder::RunFolder,
    sweep::{FILE, Matrix, cell_folder, conclude, finished},
};

/// Folders in a cell's folder, at most.
const DEEPEST: usize = 8;

pub(crate) fn merge(args: &MergeArgs) -> Result<u8, CliError> {
    let mut parts: Vec<(PathBuf, Slice, Matrix)> = Vec::new();
    for folder in &args.shards {
        if !folder.join(FILE).exists() {
            let reason = "no sweep.json in it, as there is in the others".to_owned();
            return Err(CliError::NoShard { folder: folder.clone(), reason });
        }
        let matrix = Matrix::read(folder)?;
        let (shard, whole) = matrix.whole();
        parts.push((folder.clone(), shard, whole));
    }
    parts.sort_by_key(|(_, shard, _)| shard.index);
    check(&parts)?;
    let (_, Slice { of, .. }, matrix) = &parts[0];
    let folder = RunFolder::create(Some(&args.out), "")?;
    if folder.path().join(FILE).exists() {
        return Err(CliError::NotEmpty { folder: args.out.clone() });
    }
    let (mut cells, mut missing): (Vec<Cell>, Vec<String>) = (Vec::new(), Vec::new());
    for index in 0..matrix.cells.len() {
        let of_shard = Slice { index: index % of + 1, of: *of };
        let part = parts.iter().find(|(_, shard, _)| *shard == of_shard);
        let cell = part.map(|(from, ..)| finished(from, matrix, index)).transpose()?.flatten();
        match part.zip(cell) {
            Some(((from, ..), cell)) => {
                let relative = cell_folder(matrix, index);
                lay(&from.join(&relative), &folder.path().join(&relative), 0)?;
                cells.push(cell);
            }
            None if !missing.contains(&of_shard.to_string()) => missing.push(of_shard.to_string()),
            None => {}
        }
    }
    if let [first, ..] = &missing[..] {
        let (missing, verb) = if missing.len() == 1 { (first.clone(), "is") } else { (missing.join(", "), "are") };
        return Err(CliError::ShardsMissing { missing: format!("{missing} {verb}"), of: *of });
    }
    matrix.write(folder.path())?;
    conclude(&folder, &cells, Form::of(args.json, args.quiet))
}

fn check(parts: &[(PathBuf, Slice, Matrix)]) -> Result<(), CliError> {
    let (a, shard, matrix) = &parts[0];
    for (b, other, its) in &parts[1..] {
        let differing = [("numbers of shards", shard.of != other.of), ("matrices or settings", matrix != its)];
        if let Some((what, _)) = differing.into_iter().find(|(_, differs)| *differs) {
            return Err(CliError::ShardsDiffer { a: a.clone(), b: b.clone(), what: what.to_owned() });
        }
    }
    match parts.windows(2).find(|pair| pair[0].1 == pair[1].1) {
        Some([(a, shard, _), (b, ..)]) => {
            Err(CliError::ShardTwice { a: a.clone(), b: b.clone(), shard: shard.to_string() })
        }
        _ => Ok(()),
    }
}

/// The files of a folder in another. Links are not followed: what a shard holds is its own.
fn lay(from: &Path, to: &Path, depth: usize) -> Result<(), CliError> {
    let failed = |path: &Path, source| CliError::Io { action: "copy", path: path.to_owned(), source };
    fs::create_dir_all(to).map_err(|source| failed(to, source))?;
    for entry in fs::read_dir(from).map_err(|source| failed(from, source))? {
        let entry = entry.map_err(|source| failed(from, source))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        let kind = entry.file_type().map_err(|source| failed(&path, source))?;
        if kind.is_dir() && depth < DEEPEST {
            lay(&path, &target, depth + 1)?;
        } else if kind.is_file() {
            let copied = fs::hard_link(&path, &target).or_else(|_| fs::copy(&path, &target).map(|_| ()));
            copied.map_err(|source| failed(&path, source))?;
        } else {
            return Err(failed(&path, io::Error::other("neither a file nor a folder of files")));
        }
    }
    Ok(())
}
