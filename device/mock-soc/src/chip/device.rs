//! The device: who has it, its caches, and the one read offset that all groups share (`cache_manager.cpp`).

use std::collections::{BTreeMap, BTreeSet};

use super::{Client, Handle, compiled::Compiled, configured::Configured};
use crate::{
    Fault,
    network::{Caches, Window},
    status::{self, Failure},
};

pub(super) struct Device {
    pub(super) group_id: String,
    pub(super) owners: BTreeMap<Handle, Client>,
    pub(super) caches: Caches,
    /// Entries of each ring; absent before a group with caches was configured.
    length: Option<usize>,
    read_offset: usize,
    /// Before the last update: what a run uses that does not wait for the update.
    offset_before: usize,
    /// The offset was updated since the last run.
    updated: bool,
    /// Groups with caches that are not configured yet.
    missing: BTreeSet<String>,
    bound: BTreeSet<String>,
}

impl Device {
    pub(super) fn new(group_id: &str) -> Self {
        Self {
            group_id: group_id.into(),
            owners: BTreeMap::new(),
            caches: Caches::default(),
            length: None,
            read_offset: 0,
            offset_before: 0,
            updated: false,
            missing: BTreeSet::new(),
            bound: BTreeSet::new(),
        }
    }

    /// Gives a group that is being configured its caches.
    pub(super) fn bind(&mut self, group: &Configured, compiled: &Compiled) -> Result<(), Failure> {
        if group.cache_ids().next().is_none() {
            return Ok(());
        }
        let length = group.columns();
        if self.length.is_some_and(|known| known != length) {
            let why = format!("caches of {length} entries, but those of another group have {:?}", self.length);
            return Err(Failure::new(status::INVALID_ARGUMENT, why));
        }
        for id in group.cache_ids() {
            if !self.caches.bind(id, group.cache_entry(), length) {
                return Err(Failure::new(status::INTERNAL_FAILURE, format!("Cache size mismatch for cache_id {id}")));
            }
        }
        self.length = Some(length);
        self.bound.insert(group.name().into());
        self.missing.extend(compiled.groups_with_caches().map(ToOwned::to_owned));
        self.missing.retain(|name| !self.bound.contains(name));
        Ok(())
    }

    /// The length, `None` where there is no cache, or a failure while a group is missing.
    fn ready(&self) -> Result<Option<usize>, Failure> {
        match (self.length, self.missing.first()) {
            (None, _) => Ok(None),
            (Some(_), Some(name)) => {
                let why = format!("CacheManager not initialized: group {name} is not configured");
                Err(Failure::new(status::INVALID_OPERATION, why))
            }
            (Some(length), None) => Ok(Some(length)),
        }
    }

    /// Sets the read offset, absolutely. It does not clear the memory, and a run does not count it as an update.
    pub(super) fn init_cache(&mut self, offset: u32) -> Result<Option<usize>, Failure> {
        let Some(length) = self.length else { return Ok(None) };
        let offset = offset as usize;
        if offset >= length {
            let why = format!("offset {offset} in a ring of {length} entries");
            return Err(Failure::new(status::INVALID_ARGUMENT, why));
        }
        self.ready()?;
        (self.read_offset, self.offset_before) = (offset, offset);
        Ok(Some(offset))
    }

    /// Moves the read offset. The sum is one of 32 bits without sign before it is divided, as in `HailoRT`.
    pub(super) fn update_offset(&mut self, delta: i32, faults: &[Fault]) -> Result<Option<usize>, Failure> {
        let Some(length) = self.ready()? else { return Ok(None) };
        let sum = (self.read_offset as u32).wrapping_add(delta.cast_unsigned()) as usize;
        self.offset_before = self.read_offset;
        if !faults.contains(&Fault::OffsetNotAdvanced) {
            self.read_offset = if faults.contains(&Fault::RingWrap) { sum.min(length - 1) } else { sum % length };
        }
        self.updated = true;
        Ok(Some(self.read_offset))
    }

    /// The read offset that a run of a group uses; `None` when the firmware waits for an update that did not come. A group that
    /// was configured without its caches enabled does not wait, and runs before the update takes effect.
    pub(super) fn offset_of_run(&mut self, group: &Configured) -> Option<usize> {
        if group.cache_ids().next().is_none() {
            return Some(0);
        }
        let updated = std::mem::take(&mut self.updated);
        match (group.kv_cache(), updated) {
            (true, true) => Some(self.read_offset),
            (true, false) => None,
            (false, _) => Some(self.offset_before),
        }
    }

    pub(super) fn window(&self, group: &Configured, read_offset: usize, reversed: bool) -> Option<Window> {
        let length = self.length?;
        Some(Window { read_offset, length, rows: group.rows(), reversed })
    }
}
