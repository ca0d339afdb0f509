//! Spreading prompts over threads.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

/// Calls `work` with every index below `count`, on `jobs` threads, and returns the results in index order. After an error no
/// further index is begun.
///
/// # Errors
/// The error of the lowest failing index among those tried.
///
/// # Panics
/// When `work` does.
pub fn in_parallel<T: Send, E: Send>(
    count: usize,
    jobs: usize,
    work: impl Fn(usize) -> Result<T, E> + Sync,
) -> Result<Vec<T>, E> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(count));
    let worker = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            let result = work(index);
            if result.is_err() {
                next.store(count, Ordering::Relaxed);
            }
            done.lock().unwrap_or_else(PoisonError::into_inner).push((index, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.clamp(1, count.max(1)) {
            scope.spawn(worker);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_and_the_first_error_wins() {
        assert_eq!(in_parallel(5, 3, |index| Ok::<_, ()>(index * 2)), Ok(vec![0, 2, 4, 6, 8]));
        assert_eq!(in_parallel(0, 3, |_| Ok::<(), ()>(())), Ok(vec![]));
        let failing = in_parallel(5, 1, |index| if index >= 2 { Err(index) } else { Ok(()) });
        assert_eq!(failing, Err(2));
    }
}
