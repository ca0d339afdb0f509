//! Which arrays of a file a map means, and which it does not use.

use std::collections::BTreeSet;

use fidelity_trace::Site;

use super::{
    archive::Archive,
    error::{ImportError, listed, shown},
    map::{BLOCK, Fed, IdArray, Ids, Map, Positions, PromptSource, SiteMap},
};

/// The sites that a line of the map stands for, and their arrays; none where it is optional and not there.
pub(crate) fn blocks(
    name: &str,
    site: &SiteMap,
    archive: &mut Archive,
) -> Result<Vec<(Site, Vec<String>)>, ImportError> {
    let parsed =
        |name: &str| name.parse().map_err(|error: fidelity_trace::UnknownSite| ImportError::Prompts(error.to_string()));
    if name.contains(BLOCK) {
        let pattern = &site.arrays[0];
        let of = |block: usize| pattern.replace(BLOCK, &block.to_string());
        let count = (0..).take_while(|block| archive.has(&of(*block))).count();
        if let Some(later) = (count + 1..=count + archive.names().len()).find(|block| archive.has(&of(*block))) {
            return Err(archive.wrong(&of(count), format!("not in the file, though `{}` is", shown(&of(later)))));
        }
        if count == 0 && !site.optional {
            archive.header(&of(0))?;
        }
        return (0..count)
            .map(|block| Ok((parsed(&name.replacen(BLOCK, &block.to_string(), 1))?, vec![of(block)])))
            .collect();
    }
    let arrays = if site.arrays.is_empty() { vec![archive.only()?.to_owned()] } else { site.arrays.clone() };
    if site.optional && !arrays.iter().any(|array| archive.has(array)) {
        return Ok(Vec::new());
    }
    Ok(vec![(parsed(name)?, arrays)])
}

/// Says which arrays of the file the map does not use.
pub(crate) fn unused(map: &Map, archive: &Archive) -> Option<String> {
    let ids = |ids: &Option<Ids>| match ids {
        Some(Ids::Array(IdArray { array, .. })) => Some(array.clone()),
        _ => None,
    };
    let mut used: BTreeSet<String> = ids(&map.generated).into_iter().collect();
    if let PromptSource::Array(array) = &map.prompt {
        used.insert(array.array.clone());
    }
    let mut patterns = Vec::new();
    for scope in map.scopes.values() {
        if let Positions::Array(array) = &scope.positions {
            used.insert(array.array.clone());
        }
        if let Fed::Ids(fed) = &scope.fed {
            used.extend(ids(&Some(fed.clone())));
        }
        for array in scope.sites.values().flat_map(|site| &site.arrays) {
            match array.split_once(BLOCK) {
                Some(pattern) => patterns.push(pattern),
                None => drop(used.insert(array.clone())),
            }
        }
        if scope.sites.values().any(|site| site.arrays.is_empty()) {
            return None;
        }
    }
    let of_block = |name: &str| {
        patterns.iter().any(|(before, after)| {
            let index = name.strip_prefix(before).and_then(|rest| rest.strip_suffix(after));
            index.is_some_and(|index| !index.is_empty() && index.bytes().all(|byte| byte.is_ascii_digit()))
        })
    };
    let left: Vec<&str> =
        archive.names().iter().map(String::as_str).filter(|name| !used.contains(*name) && !of_block(name)).collect();
    (!left.is_empty()).then(|| format!("not mapped and left out: {}", listed(left)))
}
