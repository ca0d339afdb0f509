//! What happened on the chip, for tests to ask about and for a log.

use std::{
    collections::BTreeMap,
    fs::File,
    io::Write,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Event {
    /// A client connected.
    Connected {
        /// Counted from 1.
        client: u32,
    },
    /// Its link is gone.
    Disconnected {
        /// Counted from 1.
        client: u32,
    },
    /// The device was opened.
    Opened {
        /// By whom.
        client: u32,
        /// `UNIQUE`, or a name that clients share.
        group_id: String,
    },
    /// A HEF arrived.
    Model {
        /// The network group that was asked for.
        group: String,
        /// Its size.
        hef_bytes: u64,
    },
    /// A network group was configured.
    Configured {
        /// The group.
        group: String,
        /// `set_enable_kv_cache`
        kv_cache: bool,
        /// 0: the default.
        batch_size: u32,
        /// `hailo_power_mode_t`
        power_mode: u32,
        /// `hailo_format_type_t` of each stream by name: 1 uint8, 2 uint16, 3 float32.
        formats: BTreeMap<String, u32>,
    },
    /// The read offset was set.
    CacheInitialised {
        /// To this entry.
        offset: usize,
    },
    /// The read offset was moved.
    CacheOffset {
        /// By so many entries.
        delta: i32,
        /// To this one.
        offset: usize,
    },
    /// A group ran.
    Run {
        /// The group.
        group: String,
        /// The read offset it ran with; 0 without caches.
        offset: usize,
        /// Counted from 1, over all groups.
        number: u32,
    },
    /// A run waits for an `update_cache_offset` that did not come: it is never answered.
    RunWaits {
        /// The group.
        group: String,
    },
    /// A request failed of itself.
    Failed {
        /// The action.
        action: &'static str,
        /// `hailo_status`
        status: u32,
        /// In words.
        why: String,
    },
    /// A request met a misbehaviour.
    Misbehaved {
        /// The action.
        action: &'static str,
        /// Which of its kind, from 1 on.
        number: u32,
        /// What became of it.
        conduct: String,
    },
}

/// All that happened, in order.
#[derive(Debug, Default)]
pub(crate) struct Log {
    events: Mutex<Vec<Event>>,
    file: Option<Mutex<File>>,
}

impl Log {
    /// Into a file as well, one JSON object a line.
    pub(crate) fn new(file: Option<File>) -> Self {
        Self { events: Mutex::default(), file: file.map(Mutex::new) }
    }

    pub(crate) fn add(&self, event: Event) {
        if let Some(file) = &self.file
            && let Ok(line) = serde_json::to_string(&event)
        {
            // A log that cannot be written must not change what the chip does.
            let _ = writeln!(lock(file), "{line}");
        }
        lock(&self.events).push(event);
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        lock(&self.events).clone()
    }
}

/// A lock that a panicking test held is still good.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
