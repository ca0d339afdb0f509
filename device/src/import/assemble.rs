//! From files and a map to a trace.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use fidelity_trace::{Arm, ArmKind, Capture, Manifest, PromptRecord, Rows, Scope, Site, Taps, Tensor, TraceWriter};
use ndarray::{ArrayD, Axis as Index};
use serde_json::Value;

use super::{
    archive::Archive,
    arrange::Wanted,
    check::{Check, ReferenceRows},
    error::{ImportError, listed, shown},
    feeding::{Tokens, check_positions, generated, greedy, known_positions, next_positions, tokens},
    map::{ScopeMap, SiteMap},
    plan::{Import, ImportPrompt},
    prompts,
    resolve::{blocks, unused},
    shapes::Expected,
};

/// What was imported.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Imported {
    /// Number of prompts.
    pub prompts: usize,
    /// Rows by scope, of all prompts together.
    pub rows: BTreeMap<Scope, usize>,
    /// Sites by scope.
    pub sites: BTreeMap<Scope, BTreeSet<Site>>,
    /// What a reader must know: what was left out, what looks odd.
    pub notes: Vec<String>,
    /// How alike the rows are to the trace they were checked against.
    pub checks: Vec<Check>,
}

/// Imports dumps into a new trace in `out`. Either the whole trace is there afterwards, or nothing.
///
/// # Errors
/// A file, the map, a layout or the prompts cannot be used, or the trace cannot be written.
pub fn import(plan: &Import<'_>, out: &Path) -> Result<Imported, ImportError> {
    let io = |action, path: &Path| {
        let path = path.to_owned();
        move |source| ImportError::Io { action, path, source }
    };
    if out.join("trace.json").exists() {
        return Err(fidelity_trace::WriteError::Exists { path: out.to_owned() }.into());
    }
    let mut archives: Vec<Archive> = plan.files.iter().map(|file| Archive::open(file)).collect::<Result<_, _>>()?;
    let prompts = prompts::of_files(plan, &mut archives)?;
    let parent = out.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(parent).map_err(io("create", parent))?;
    let making = shared_folder(parent).map_err(io("create a folder in", parent))?;
    let mut writer = TraceWriter::open(making.path(), manifest(plan, &prompts), false)?;
    let mut work = Work { plan, imported: Imported::default(), steps: None };
    let mut index = 0;
    for (archive, prompts) in archives.iter_mut().zip(&prompts) {
        for capture in work.file(archive, prompts)? {
            writer.finish_prompt(index, &capture)?;
            index += 1;
        }
    }
    work.imported.prompts = index;
    writer.set_logits_step(work.logits_step());
    writer.complete()?;
    if out.is_dir() {
        fs::remove_dir(out).map_err(io("replace", out))?;
    }
    fs::rename(making.keep(), out).map_err(io("create", out))?;
    Ok(work.imported)
}

/// A folder that goes away unless it is kept, readable by whoever may read the parent.
fn shared_folder(parent: &Path) -> std::io::Result<tempfile::TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".importing-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o755));
    }
    builder.tempdir_in(parent)
}

fn manifest(plan: &Import<'_>, prompts: &[Vec<ImportPrompt>]) -> Manifest {
    let name_of = |path: &Path| path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let stem = plan.files.first().and_then(|file| file.file_stem());
    let name = plan.map.arm_name.clone().or_else(|| stem.map(|stem| stem.to_string_lossy().into_owned()));
    let mut detail = plan.map.arm_detail.clone();
    detail.insert("map".into(), Value::from(name_of(Path::new(&plan.map.origin))));
    let arm = Arm { kind: ArmKind::Import, name: name.unwrap_or_default(), detail };
    let mut manifest = Manifest::new(arm, plan.checkpoint.clone());
    manifest.environment.insert("fidelity".into(), Value::from(env!("CARGO_PKG_VERSION")));
    manifest.other.insert("imported_files".into(), plan.files.iter().map(|file| name_of(file)).collect());
    manifest.prompts = prompts.iter().flatten().enumerate().map(|(index, prompt)| record(index, prompt)).collect();
    manifest
}

fn record(index: usize, prompt: &ImportPrompt) -> PromptRecord {
    PromptRecord::new(index, prompt.id.clone(), prompt.text.clone(), prompt.token_ids.clone())
}

/// A site that a file holds, its line of the map, and its arrays.
type Found<'m> = (Site, &'m SiteMap, Vec<String>);

/// The import under way.
struct Work<'a> {
    plan: &'a Import<'a>,
    imported: Imported,
    /// The steps of the logit grids met, if any were.
    steps: Option<Steps>,
}

#[derive(PartialEq)]
enum Steps {
    Same(Vec<f64>),
    Different,
}

impl Work<'_> {
    fn file(&mut self, archive: &mut Archive, prompts: &[ImportPrompt]) -> Result<Vec<Capture>, ImportError> {
        let reference = self.plan.against.map(|trace| ReferenceRows::of(trace, prompts)).transpose()?;
        let mut captures = vec![Capture::new(Taps::All); prompts.len()];
        for (scope, map) in &self.plan.map.scopes {
            self.scope(*scope, map, archive, prompts, reference.as_ref(), &mut captures)?;
        }
        if captures.iter().all(|capture| capture.scopes.is_empty()) {
            let names = listed(archive.names().iter().map(String::as_str));
            let reason = format!("it holds none of the arrays that {} maps; it holds {names}", self.plan.map.origin);
            return Err(ImportError::File { path: archive.path().to_owned(), reason });
        }
        let generated = generated(self.plan.map.generated.as_ref(), prompts, &captures, archive)?;
        captures.iter_mut().zip(generated.ids).for_each(|(capture, ids)| capture.generated = ids);
        self.note(generated.doubt);
        self.note(unused(self.plan.map, archive));
        if let Some(reference) = reference {
            self.imported.notes.extend(reference.notes.iter().cloned());
            add(&mut self.imported.checks, reference.check(&captures));
        }
        Ok(captures)
    }

    fn note(&mut self, note: Option<String>) {
        self.imported.notes.extend(note.filter(|note| !self.imported.notes.contains(note)));
    }

    fn scope(
        &mut self,
        scope: Scope,
        map: &ScopeMap,
        archive: &mut Archive,
        prompts: &[ImportPrompt],
        reference: Option<&ReferenceRows>,
        captures: &mut [Capture],
    ) -> Result<(), ImportError> {
        let sites = self.sites(scope, map, archive)?;
        if sites.is_empty() {
            return Ok(());
        }
        let known = known_positions(map, prompts, archive)?;
        let mut tensors = BTreeMap::new();
        for (site, map, arrays) in sites {
            let expected = self.expected(scope, site, map, prompts, known.as_deref(), reference);
            let wanted = Wanted { scope, site, map, arrays, expected };
            let positions = |rows| known.clone().unwrap_or_else(|| next_positions(prompts, rows));
            let pairs = |rows: usize| reference.map_or_else(Vec::new, |it| it.pairs(scope, site, &positions(rows)));
            let arranged = wanted.load(archive, reference.is_some().then_some(&pairs))?;
            if wanted.rounds(archive)? {
                self.note(Some("float64 was rounded to float32, which is what a trace holds".into()));
            }
            self.step_of(&wanted);
            tensors.insert(site, arranged);
        }
        let wrong =
            |reason: String| ImportError::Layout { path: archive.path().to_owned(), place: scope.to_string(), reason };
        let rows = common_rows(&tensors).map_err(wrong)?;
        if rows == 0 {
            self.note(Some(format!("{scope} has no rows in the file and was left out")));
            return Ok(());
        }
        let positions = known.unwrap_or_else(|| next_positions(prompts, rows));
        let fed = tokens(&map.fed, prompts, &positions, archive)?;
        for (index, capture) in captures.iter_mut().enumerate() {
            let wrong = |reason: String| ImportError::Layout {
                path: archive.path().to_owned(),
                place: format!("{scope} of prompt `{}`", shown(&prompts[index].id)),
                reason,
            };
            let own: BTreeMap<Site, Tensor> =
                tensors.iter().map(|(site, array)| (*site, tensor(array, index))).collect();
            check_positions(&positions[index], rows).map_err(wrong)?;
            let token_ids = match &fed {
                Tokens::Known(ids) => ids[index].clone(),
                Tokens::Greedy => greedy(&positions[index], own.get(&Site::Logits), capture).map_err(wrong)?,
            };
            if token_ids.len() != rows {
                return Err(wrong(format!("{rows} rows, but {} tokens were fed", token_ids.len())));
            }
            capture.rows(scope, Rows { positions: &positions[index], token_ids: &token_ids });
            own.iter().for_each(|(site, it)| capture.tensor(scope, *site, &it.shape, &it.values));
        }
        *self.imported.rows.entry(scope).or_default() += rows * prompts.len();
        self.imported.sites.entry(scope).or_default().extend(tensors.keys());
        Ok(())
    }

    /// The sites of a scope that the file holds, with the names of their arrays.
    fn sites<'m>(
        &mut self,
        scope: Scope,
        map: &'m ScopeMap,
        archive: &mut Archive,
    ) -> Result<Vec<Found<'m>>, ImportError> {
        let mut found = Vec::new();
        for (name, site) in &map.sites {
            let of_file = blocks(name, site, archive)?;
            if of_file.is_empty() {
                self.note(Some(format!("{scope}/{name} was left out where a file does not hold it")));
            }
            if let Some(block) = of_file.iter().filter_map(|(site, _)| site.block()).max()
                && let Some(model) = self.plan.model.filter(|model| block as usize >= model.blocks)
            {
                let reason = format!(
                    "there is a block {block}, but the checkpoint has {} (0 to {})",
                    model.blocks,
                    model.blocks - 1
                );
                return Err(ImportError::Layout {
                    path: archive.path().to_owned(),
                    place: format!("{scope}/{name}"),
                    reason,
                });
            }
            found.extend(of_file.into_iter().map(|(it, arrays)| (it, site, arrays)));
        }
        Ok(found)
    }

    fn expected(
        &self,
        scope: Scope,
        site: Site,
        map: &SiteMap,
        prompts: &[ImportPrompt],
        positions: Option<&[Vec<u32>]>,
        reference: Option<&ReferenceRows>,
    ) -> Expected {
        let rows = positions.and_then(|positions| positions.first()).map(Vec::len);
        let expected = Expected { prompts: Some(prompts.len()), rows, heads: map.heads, ..Expected::default() };
        let expected = match &self.plan.model {
            Some(model) => expected.by_model(model, site),
            None => expected,
        };
        match reference.and_then(|reference| reference.row_shape(scope, site)) {
            Some(row) => expected.by_reference(row),
            None => expected,
        }
    }

    /// Remembers the grid that quantised logits lie on.
    fn step_of(&mut self, wanted: &Wanted<'_>) {
        if wanted.site != Site::Logits {
            return;
        }
        let own = wanted.map.codes.as_ref().map(|codes| codes.iter().map(|code| code.scale).collect::<Vec<f64>>());
        self.steps = Some(match (self.steps.take(), own) {
            (None, Some(own)) => Steps::Same(own),
            (Some(Steps::Same(steps)), Some(own)) if steps == own => Steps::Same(steps),
            _ => Steps::Different,
        });
    }

    /// The step of the logit grid, where all logits lie on one.
    fn logits_step(&self) -> Option<Vec<f64>> {
        match &self.steps {
            Some(Steps::Same(steps)) => Some(steps.clone()),
            Some(Steps::Different) | None => None,
        }
    }
}

/// How many rows all sites of a scope have.
fn common_rows(tensors: &BTreeMap<Site, ArrayD<f32>>) -> Result<usize, String> {
    let mut rows = tensors.iter().map(|(site, array)| (site, array.shape()[1]));
    let Some((first, expected)) = rows.next() else { return Ok(0) };
    match rows.find(|(_, rows)| *rows != expected) {
        None => Ok(expected),
        Some((site, found)) => Err(format!(
            "`{first}` has {expected} rows and `{site}` has {found}; all sites of a scope share their rows: `take` those that all have, or import them apart"
        )),
    }
}

/// The rows of one prompt.
fn tensor(arranged: &ArrayD<f32>, prompt: usize) -> Tensor {
    let own = arranged.index_axis(Index(0), prompt);
    Tensor { shape: own.shape().to_vec(), values: own.iter().copied().collect() }
}

/// Adds checks of another file, weighted by rows.
fn add(all: &mut Vec<Check>, more: Vec<Check>) {
    for check in more {
        let Some(known) = all.iter_mut().find(|known| known.scope == check.scope && known.site == check.site) else {
            all.push(check);
            continue;
        };
        known.correlation = match (known.correlation, check.correlation) {
            (Some(a), Some(b)) => {
                let (a, b) = (a * known.rows as f64, b * check.rows as f64);
                Some((a + b) / (known.rows + check.rows).max(1) as f64)
            }
            (a, b) => a.or(b),
        };
        known.rows += check.rows;
    }
}
