//! Numbers that are asked for before they are read.

/// Numbers of a cache line.
pub(super) const CACHE_LINE: usize = 64 / size_of::<f32>();

/// Asks for a number to come into the second cache.
#[inline(always)]
pub(super) fn prefetch(values: &[f32], index: usize) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction reads nothing: an address that is not there is passed over.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(values.as_ptr().wrapping_add(index).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (values, index);
}

/// Asks for every cache line that has some of the numbers, wherever in a line they begin.
#[inline(always)]
pub(super) fn prefetch_all(values: &[f32]) {
    for index in (0..values.len()).step_by(CACHE_LINE) {
        prefetch(values, index);
    }
    prefetch(values, values.len().saturating_sub(1));
}
