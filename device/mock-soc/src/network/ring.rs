//! Caches: rings of entries, one entry a token, that all groups of a device share.

use std::collections::BTreeMap;

/// Where a run reads and writes: `[read_offset, …)` is read, the `rows` entries before `read_offset` are written, all modulo
/// the length. The newest token's entry is therefore the one before `read_offset`, whichever group ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) read_offset: usize,
    pub(crate) length: usize,
    pub(crate) rows: usize,
    /// This group takes the values of an entry in reverse order ([`crate::Fault::CacheLayout`]).
    pub(crate) reversed: bool,
}

impl Window {
    /// The entries that are read, oldest first.
    pub(super) fn read(self) -> impl Iterator<Item = usize> {
        (0..self.length - self.rows).map(move |index| (self.read_offset + index) % self.length)
    }

    /// The entries that are written, row after row.
    pub(super) fn written(self) -> impl Iterator<Item = usize> {
        (self.length - self.rows..self.length).map(move |index| (self.read_offset + index) % self.length)
    }
}

/// The memory behind the cache ids, in float32.
#[derive(Debug, Default)]
pub(crate) struct Caches(BTreeMap<i32, Cache>);

/// The memory of one id.
#[derive(Debug)]
pub(crate) struct Cache {
    pub(crate) entry: usize,
    values: Vec<f32>,
}

impl Caches {
    /// Makes the memory of an id, or finds it: false when it is there in another size.
    ///
    /// New memory is not empty: like the chip's it holds something, which a right mask hides.
    pub(crate) fn bind(&mut self, id: i32, entry: usize, length: usize) -> bool {
        let stale = |index: usize| if (index * 7 + index / 5).is_multiple_of(3) { 1.5 } else { -0.75 };
        let make = || Cache { entry, values: (0..entry * length).map(stale).collect() };
        let cache = self.0.entry(id).or_insert_with(make);
        cache.entry == entry && cache.values.len() == entry * length
    }

    /// The entries that are read, oldest first; `None` when nothing is bound to the id.
    pub(super) fn gather(&self, id: i32, window: Window) -> Option<Vec<f32>> {
        let cache = self.0.get(&id)?;
        let mut gathered = Vec::with_capacity(cache.values.len());
        for slot in window.read() {
            let entry = cache.values.get(slot * cache.entry..(slot + 1) * cache.entry)?;
            match window.reversed {
                true => gathered.extend(entry.iter().rev()),
                false => gathered.extend(entry),
            }
        }
        Some(gathered)
    }

    /// Writes the fresh rows.
    pub(super) fn scatter(&mut self, id: i32, window: Window, rows: &[f32]) -> Option<()> {
        let cache = self.0.get_mut(&id)?;
        for (slot, row) in window.written().zip(rows.chunks_exact(cache.entry)) {
            let entry = cache.values.get_mut(slot * cache.entry..(slot + 1) * cache.entry)?;
            entry.copy_from_slice(row);
            if window.reversed {
                entry.reverse();
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Section by section as in `HailoRT`'s `cache_buffer.cpp`: read `[r, r + in)`, written `[r + in, r + L)`.
    #[test]
    fn the_windows_are_those_of_the_cache_manager() {
        let window = Window { read_offset: 6, length: 8, rows: 3, reversed: false };
        assert_eq!(window.read().collect::<Vec<_>>(), [6, 7, 0, 1, 2]);
        assert_eq!(window.written().collect::<Vec<_>>(), [3, 4, 5]);
    }

    #[test]
    fn what_one_group_writes_another_reads() {
        let mut caches = Caches::default();
        assert!(caches.bind(0, 2, 4));
        let prefill = Window { read_offset: 2, length: 4, rows: 2, reversed: false };
        caches.scatter(0, prefill, &[1.0, 2.0, 3.0, 4.0]).expect("bound");
        let step = Window { read_offset: 3, rows: 1, ..prefill };
        let read = caches.gather(0, step).expect("bound");
        assert_eq!(read[2..], [1.0, 2.0, 3.0, 4.0]);
        let reversed = caches.gather(0, Window { reversed: true, ..step }).expect("bound");
        assert_eq!(reversed[2..], [2.0, 1.0, 4.0, 3.0]);
    }

    #[test]
    fn an_id_has_one_size() {
        let mut caches = Caches::default();
        assert!(caches.bind(3, 4, 8));
        assert!(caches.bind(3, 4, 8));
        assert!(!caches.bind(3, 8, 8));
    }
}
