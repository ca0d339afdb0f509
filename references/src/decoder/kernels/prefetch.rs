//! Asking memory for what is read soon.

/// Starts bringing `values[ahead]` into the second cache, wherever that lies; without effect on what is computed.
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "the instruction takes a pointer")]
#[inline(always)]
pub(super) fn prefetch<T>(values: &[T], ahead: usize) {
    use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};

    // SAFETY: a prefetch reads nothing and faults on no address; every x86-64 has it (SSE).
    unsafe { _mm_prefetch(values.as_ptr().wrapping_add(ahead).cast(), _MM_HINT_T1) }
}

/// Other processors' own prefetching has to do.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub(super) fn prefetch<T>(_: &[T], _: usize) {}
