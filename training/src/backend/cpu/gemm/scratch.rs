//! Memory for the panels of a task.

use std::cell::Cell;

use super::ahead::CACHE_LINE;

thread_local! {
    /// What the last task of this thread used, which the second cache still holds.
    static LAST: Cell<Vec<f32>> = const { Cell::new(Vec::new()) };
}

/// Lends `work` `len` numbers that hold anything.
pub(super) fn with_scratch<T>(len: usize, work: impl FnOnce(&mut [f32]) -> T) -> T {
    let mut buffer = LAST.take();
    if buffer.len() < len + CACHE_LINE {
        buffer.resize(len + CACHE_LINE, 0.0);
    }
    let result = work(&mut aligned(&mut buffer)[..len]);
    LAST.set(buffer);
    result
}

/// The numbers from the first cache line that begins with `buffer` or in it: a register's worth of
/// a panel then never lies in two.
pub(super) fn aligned(buffer: &mut [f32]) -> &mut [f32] {
    let skipped = buffer.as_ptr().align_offset(CACHE_LINE * size_of::<f32>()).min(buffer.len());
    &mut buffer[skipped..]
}
