//! Memory for panels, kept by each thread from one product to the next.

use std::cell::RefCell;

/// Numbers of a cache line; panels begin with one.
const LINE: usize = 64 / size_of::<f32>();

thread_local! {
    /// The buffers of this thread that nobody uses.
    static FREE: RefCell<Vec<Vec<f32>>> = const { RefCell::new(Vec::new()) };
}

/// Lends `work` a buffer of `len` numbers, which hold anything.
///
/// The buffer is out of the thread's hands for that time: `work` may wait for other tasks, and the
/// thread may meanwhile take up another product.
pub(super) fn with_scratch<T>(len: usize, work: impl FnOnce(&mut [f32]) -> T) -> T {
    let mut buffer = FREE.with_borrow_mut(Vec::pop).unwrap_or_default();
    if buffer.len() < len + LINE {
        buffer = vec![0.0; len + LINE];
    }
    let skipped = buffer.as_ptr().align_offset(LINE * size_of::<f32>());
    let result = work(&mut buffer[skipped..][..len]);
    FREE.with_borrow_mut(|free| free.push(buffer));
    result
}
