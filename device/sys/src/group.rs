//! A configured network group and its buffers.
#![expect(unsafe_code, reason = "calls the C surface, and makes slices of its buffers")]

use std::{ptr, slice, time::Duration};

use crate::{Direction, Error, call::call, model::is_output, raw};

/// A configured network group with a buffer for each stream. It keeps its device open and is leaked once it is poisoned.
pub struct Group {
    handle: raw::Handle,
    /// Of inputs and outputs.
    counts: [usize; 2],
}

// SAFETY: a group may be used from any thread, by one at a time.
unsafe impl Send for Group {}

impl Drop for Group {
    fn drop(&mut self) {
        // SAFETY: the handle came from fid_model_configure and is freed once; the C surface leaks what is poisoned.
        unsafe { raw::fid_group_free(self.handle) }
    }
}

impl Group {
    /// Takes a handle of fid_model_configure.
    pub(crate) const fn new(handle: raw::Handle, counts: [usize; 2]) -> Self {
        Self { handle, counts }
    }

    /// The buffer of an input; empty once the group is poisoned.
    ///
    /// # Panics
    /// Where there is no input of this index.
    pub fn input_mut(&mut self, index: usize) -> &mut [u8] {
        let (data, length) = self.buffer(Direction::Input, index);
        if length == 0 {
            return &mut [];
        }
        // SAFETY: the buffer is the group's and lives as long as it does. `self` is borrowed mutably, so that neither a run, which takes
        // `&mut self` and is over when it returns unless it poisons, nor another slice of it exists.
        unsafe { slice::from_raw_parts_mut(data, length) }
    }

    /// The buffer of an output; empty once the group is poisoned.
    ///
    /// # Panics
    /// Where there is no output of this index.
    pub fn output(&self, index: usize) -> &[u8] {
        let (data, length) = self.buffer(Direction::Output, index);
        if length == 0 {
            return &[];
        }
        // SAFETY: as for `input_mut`; outputs are written by runs alone.
        unsafe { slice::from_raw_parts(data, length) }
    }

    /// A buffer's address and length; nothing once poisoned, for a late reply may be written into it at any time.
    fn buffer(&self, direction: Direction, index: usize) -> (*mut u8, usize) {
        let count = self.counts[usize::from(direction == Direction::Output)];
        assert!(index < count, "stream {index} of {count}");
        let (mut data, mut length) = (ptr::null_mut(), 0);
        // SAFETY: the handle is valid, the pointers are valid for writing.
        let given = call(|error| unsafe {
            raw::fid_group_buffer(self.handle, is_output(direction), index, &raw mut data, &raw mut length, error)
        });
        if given.is_ok() && !data.is_null() { (data, length) } else { (ptr::null_mut(), 0) }
    }

    /// How many runs the device queues.
    pub fn queue_size(&mut self) -> Result<usize, Error> {
        let mut size = 0;
        // SAFETY: the handle is valid, the pointers are valid for writing.
        call(|error| unsafe { raw::fid_group_queue_size(self.handle, &raw mut size, error) })?;
        Ok(size)
    }

    /// Sets the offset of the KV cache that all groups of the device share, in entries. It clears nothing. May be repeated.
    pub fn init_cache(&mut self, offset: u32) -> Result<(), Error> {
        // SAFETY: the handle is valid.
        call(|error| unsafe { raw::fid_group_init_cache(self.handle, offset, error) })
    }

    /// Moves the offset by the number of real tokens of the next run. Not to be repeated after a failure: it may have taken effect.
    pub fn update_cache_offset(&mut self, delta: i32) -> Result<(), Error> {
        // SAFETY: the handle is valid.
        call(|error| unsafe { raw::fid_group_update_cache_offset(self.handle, delta, error) })
    }

    /// One inference, from the input buffers into the output buffers. A time below a millisecond is one, one beyond 49 days is 49.
    ///
    /// # Errors
    /// 4 after the time: the group is then poisoned. Any other status leaves it usable, though what the run did to the caches is unknown.
    pub fn run(&mut self, timeout: Duration) -> Result<(), Error> {
        let timeout_ms = u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX).max(1);
        // SAFETY: the handle is valid; no slice of a buffer exists, for `self` is borrowed mutably.
        call(|error| unsafe { raw::fid_group_run(self.handle, timeout_ms, error) })
    }

    /// A run timed out and may still be in progress: nothing works any more, and the process should end by [`crate::end_process`].
    pub fn is_poisoned(&self) -> bool {
        // SAFETY: the handle is valid.
        unsafe { raw::fid_group_is_poisoned(self.handle) != 0 }
    }

    /// Shuts the group down: runs in flight are aborted, no more are accepted.
    pub fn shutdown(&mut self) -> Result<(), Error> {
        // SAFETY: the handle is valid.
        call(|error| unsafe { raw::fid_group_shutdown(self.handle, error) })
    }
}
