//! `fidelity cache`: the reference traces that are kept.

use std::time::{Duration, SystemTime};

use crate::{
    args::CacheArgs,
    error::CliError,
    output::print,
    reference_cache::{Entry, entries, folder, prune},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

pub(crate) fn cache(args: &CacheArgs) -> Result<u8, CliError> {
    let folder = folder().ok_or(CliError::NoCacheFolder)?;
    let now = SystemTime::now();
    if args.prune {
        let before = now.checked_sub(DAY.saturating_mul(args.older_than_days)).unwrap_or(SystemTime::UNIX_EPOCH);
        let deleted = prune(&folder, before)?;
        print(&format!("deleted {} from {}\n", total(&deleted), folder.display()));
        return Ok(0);
    }
    let entries = entries(&folder);
    let mut text = format!("{:<24} {:>7} {:>10}  {}\n", "checkpoint", "prompts", "size", "last used");
    for entry in &entries {
        let days = now.duration_since(entry.used).unwrap_or_default().as_secs() / DAY.as_secs();
        let age = if days == 0 { "today".to_owned() } else { format!("{days} days ago") };
        let size = size(entry.size_bytes);
        text.push_str(&format!("{:<24} {:>7} {size:>10}  {age}\n", entry.checkpoint, entry.prompts));
    }
    text.push_str(&format!("{} in {}\n", total(&entries), folder.display()));
    print(&text);
    Ok(0)
}

/// `2 references, 24 MB`
fn total(entries: &[Entry]) -> String {
    let plural = if entries.len() == 1 { "" } else { "s" };
    let size = size(entries.iter().map(|entry| entry.size_bytes).sum());
    format!("{} reference{plural}, {size},", entries.len())
}

fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}
