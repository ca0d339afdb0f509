//! Which prompts the files hold.

use ndarray::ArrayD;

use super::{
    archive::Archive,
    array::Values,
    axes::Word,
    error::ImportError,
    map::{Map, PromptSource},
    plan::{Import, ImportPrompt},
};

/// Tokens of a prompt, at most: a float32 row for each must fit in a trace.
const MAX_TOKENS: usize = 1 << 20;

/// The prompts of every file, file by file.
pub(crate) fn of_files(plan: &Import<'_>, archives: &mut [Archive]) -> Result<Vec<Vec<ImportPrompt>>, ImportError> {
    let counts: Vec<usize> = archives.iter_mut().map(|archive| count(plan.map, archive)).collect::<Result<_, _>>()?;
    let total: usize = counts.iter().sum();
    let mut prompts = match (&plan.map.prompt, plan.prompts) {
        (PromptSource::Given | PromptSource::Text(_), Some(given)) => given.to_vec(),
        (PromptSource::Text(_), None) => {
            return Err(ImportError::Prompts(format!("{}: `prompt.text` was not tokenised", plan.map.origin)));
        }
        (PromptSource::Given, None) => {
            return Err(ImportError::Prompts(format!(
                "{}: it does not say which tokens were fed; give the prompts with --prompts or --prompt, or `prompt.token_ids` in a map",
                plan.map.origin
            )));
        }
        (PromptSource::List(_) | PromptSource::Array(_), Some(_)) => {
            return Err(ImportError::Prompts(format!(
                "{}: the map says what the prompts are, so they cannot be given beside it; drop --prompts and --prompt",
                plan.map.origin
            )));
        }
        (PromptSource::List(ids), None) => vec![numbered(0, ids.clone())],
        (PromptSource::Array(array), None) => {
            let mut prompts = Vec::new();
            for (archive, count) in archives.iter_mut().zip(&counts) {
                let ids = rows_of_ids(archive, &array.array, *count)?;
                prompts.extend(ids.into_iter().map(|ids| numbered(0, ids)));
            }
            prompts.into_iter().enumerate().map(|(index, prompt)| numbered(index, prompt.token_ids)).collect()
        }
    };
    if prompts.len() != total {
        let files = archives.len();
        return Err(ImportError::Prompts(format!(
            "the files hold {total} prompts ({files} files, in each as many as its `prompt` axis says, or one), but {} are given",
            prompts.len()
        )));
    }
    if let (Some(id), [prompt]) = (&plan.map.prompt_id, &mut prompts[..]) {
        prompt.id.clone_from(id);
    }
    check(&prompts)?;
    let mut left = prompts.into_iter();
    Ok(counts.into_iter().map(|count| left.by_ref().take(count).collect()).collect())
}

fn numbered(index: usize, token_ids: Vec<u32>) -> ImportPrompt {
    ImportPrompt { id: format!("p{index:04}"), text: None, token_ids }
}

fn check(prompts: &[ImportPrompt]) -> Result<(), ImportError> {
    match prompts.iter().find(|prompt| prompt.token_ids.is_empty() || prompt.token_ids.len() > MAX_TOKENS) {
        None => Ok(()),
        Some(prompt) => {
            let (id, found) = (super::error::shown(&prompt.id), prompt.token_ids.len());
            Err(ImportError::Prompts(format!("prompt `{id}` has {found} tokens, expected 1 to {MAX_TOKENS}")))
        }
    }
}

/// How many prompts a file holds: the size of the axis that the map calls `prompt`, or one.
fn count(map: &Map, archive: &mut Archive) -> Result<usize, ImportError> {
    let sites = map.scopes.values().flat_map(|scope| scope.sites.values());
    for site in sites.filter(|site| site.axes.has(Word::Prompt)) {
        let name = match site.arrays.first() {
            Some(name) => name.replace(super::map::BLOCK, "0"),
            None => archive.only()?.to_owned(),
        };
        if site.optional && !archive.has(&name) {
            continue;
        }
        let header = archive.header(&name)?;
        let extent = site.axes.extent(Word::Prompt, &header.shape).map_err(|reason| archive.wrong(&name, reason))?;
        return Ok(extent.unwrap_or(1));
    }
    Ok(1)
}

/// An array of integers, by prompt: `[tokens]` for one prompt, `[prompts, tokens]` for several; axes of size 1 do not matter.
pub(crate) fn rows_of_ids(archive: &mut Archive, name: &str, prompts: usize) -> Result<Vec<Vec<u32>>, ImportError> {
    let Values::Integers(values) = archive.read(name)? else {
        return Err(archive.wrong(name, "holds floats, expected the integers that ids and positions are"));
    };
    let shape: Vec<usize> = values.shape().iter().copied().filter(|extent| *extent != 1).collect();
    let by_prompt = prompts > 1 && values.len() % prompts == 0;
    let fits = match shape[..] {
        [] => prompts == 1,
        [extent] => prompts == 1 || extent == prompts,
        [first, _] => by_prompt && first == prompts,
        _ => false,
    };
    if !fits {
        let expected = if prompts == 1 { "[ids]".to_owned() } else { format!("[{prompts} prompts, ids]") };
        return Err(archive.wrong(name, format!("has shape {:?}, expected {expected}", values.shape())));
    }
    let each = values.len().checked_div(prompts).unwrap_or(0).max(1);
    ids(&values)
        .map_err(|reason| archive.wrong(name, reason))
        .map(|ids| ids.chunks(each).map(<[u32]>::to_vec).collect())
}

fn ids(values: &ArrayD<i64>) -> Result<Vec<u32>, String> {
    let ids = values.iter().map(|id| {
        u32::try_from(*id).map_err(|_| format!("holds {id}, expected ids or positions of 0 to {}", u32::MAX))
    });
    ids.collect()
}
