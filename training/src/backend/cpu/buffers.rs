//! Memory for tensors that is used again instead of being asked of the system each time.
//!
//! A step needs the same sizes of memory as the one before it. Big pieces that are given back to
//! the system come fresh, page by page, with a fault and a clearing for each: for a model of 30
//! million parameters 100,000 faults, a sixth of the time of a step. So a [`Buffer`] that is
//! dropped waits here for the next one of its size, with whatever numbers it holds; those of a
//! tensor do so through the tensor.
//!
//! Sizes are rounded up to eight classes for each power of two. What nobody has asked for in
//! [`KEPT`] goes back to the system: so a loop of equal steps settles, and one whose
//! sizes change does not pile up what it no longer needs.
//!
//! The pool is one for the process, because a tensor may be dropped on any thread, by code that
//! knows nothing of it.

use std::collections::BTreeMap;
use std::mem::{self, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use burn::tensor::{Bytes, DType, Shape, TensorData};
use burn_flex::FlexTensor;
use cubecl_common::bytes::{AllocationController, AllocationProperty};

/// Buffers of fewer numbers are left to the allocator, which is good at small ones.
const SMALLEST: usize = 1 << 12;

/// How long a buffer waits for its next use. In steps that take longer, fresh memory is no part of
/// the time worth speaking of.
pub const KEPT: Duration = Duration::from_secs(10);

/// How often is looked for what has waited for too long.
const LOOK_EVERY: Duration = Duration::from_secs(1);

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

/// Numbers in memory that waits for another use when this value is dropped.
#[derive(Debug, Default)]
pub struct Buffer(Vec<f32>);

/// `len` numbers of any value: those of an earlier use, or 0.
#[must_use]
pub fn take(len: usize) -> Buffer {
    if len < SMALLEST {
        return Buffer(vec![0.0; len]);
    }
    let class = class_of(len);
    // The lock is held for the search alone. New memory is cleared by the system, page by page,
    // when it is first written to.
    let (found, old) = pool().take(class, Instant::now());
    drop(old);
    let mut values = found.unwrap_or_else(|| vec![0.0; class]);
    values.resize(len, 0.0);
    Buffer(values)
}

/// `len` times 0.
#[must_use]
pub fn zeroed(len: usize) -> Buffer {
    let mut buffer = take(len);
    buffer.fill(0.0);
    buffer
}

impl Buffer {
    /// The numbers as a vector, which is lost to later uses unless it comes back by
    /// [`Buffer::of_vec`].
    #[must_use]
    pub fn into_vec(mut self) -> Vec<f32> {
        mem::take(&mut self.0)
    }

    /// The numbers of a vector that was a buffer once, or one that such a vector was exchanged for.
    #[must_use]
    pub fn of_vec(values: Vec<f32>) -> Self {
        Self(values)
    }

    /// A tensor of these numbers, without a copy. When its last clone is dropped the memory waits
    /// for another use.
    ///
    /// # Panics
    ///
    /// When `shape` has another number of elements.
    #[must_use]
    pub fn into_tensor(self, shape: Shape) -> FlexTensor {
        assert_eq!(self.len(), shape.num_elements(), "as many numbers as the shape has");
        self.into_tensor_of(DType::F32, shape)
    }

    /// A tensor of numbers of another type that lie in this memory from its beginning.
    ///
    /// # Panics
    ///
    /// When they do not fit.
    #[must_use]
    pub fn into_tensor_of(self, dtype: DType, shape: Shape) -> FlexTensor {
        let len = shape.num_elements() * dtype.size();
        assert!(len <= mem::size_of_val::<[f32]>(&self), "numbers of {shape:?} in their memory");
        // SAFETY: the controller's memory is the buffer's, whose bytes all are initialized, and
        // `len` is no more than it has.
        let bytes = unsafe { Bytes::from_controller(Box::new(self), len) };
        FlexTensor::from_data(TensorData::from_bytes(bytes, shape, dtype))
    }
}

impl Deref for Buffer {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &self.0
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut self.0
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let values = mem::take(&mut self.0);
        let capacity = values.capacity();
        if capacity >= SMALLEST && capacity == class_of(capacity) {
            let old = pool().give(values, Instant::now());
            drop(old);
        }
    }
}

/// How a tensor holds a buffer.
impl AllocationController for Buffer {
    fn alloc_align(&self) -> usize {
        align_of::<f32>()
    }

    fn property(&self) -> AllocationProperty {
        AllocationProperty::Other
    }

    unsafe fn memory_mut(&mut self) -> &mut [MaybeUninit<u8>] {
        let len = mem::size_of_val::<[f32]>(self);
        // SAFETY: these are the bytes of the numbers, borrowed alone as `self` is, and every `f32`
        // may be seen as bytes; the caller promises to write none that is not initialized.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }

    fn memory(&self) -> &[MaybeUninit<u8>] {
        let len = mem::size_of_val::<[f32]>(self);
        // SAFETY: these are the bytes of the numbers, borrowed as `self` is.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().cast(), len) }
    }
}

/// Gives all memory that waits back to the system.
pub fn release() {
    let idle = mem::take(&mut pool().idle);
    drop(idle);
}

/// Buffers that wait, by capacity.
#[derive(Debug)]
pub struct Pool {
    idle: BTreeMap<usize, Vec<Idle>>,
    /// When it was last looked for those that have waited for too long.
    looked: Option<Instant>,
}

#[derive(Debug)]
struct Idle {
    values: Vec<f32>,
    since: Instant,
}

/// Each method returns what has waited for too long as well, for its caller to drop when others may
/// go on: to give big memory back takes the system a while.
impl Pool {
    /// A pool without buffers.
    #[must_use]
    pub const fn new() -> Self {
        Self { idle: BTreeMap::new(), looked: None }
    }

    /// The buffer of that capacity that was given last.
    pub fn take(&mut self, class: usize, now: Instant) -> (Option<Vec<f32>>, Vec<Vec<f32>>) {
        let found = self.idle.get_mut(&class).and_then(Vec::pop);
        (found.map(|idle| idle.values), self.old(now))
    }

    /// Keeps a buffer for later.
    pub fn give(&mut self, values: Vec<f32>, now: Instant) -> Vec<Vec<f32>> {
        self.idle.entry(values.capacity()).or_default().push(Idle { values, since: now });
        self.old(now)
    }

    /// What has waited for longer than [`KEPT`], if it is time to look.
    fn old(&mut self, now: Instant) -> Vec<Vec<f32>> {
        let mut old = Vec::new();
        if self.looked.is_some_and(|looked| now.duration_since(looked) < LOOK_EVERY) {
            return old;
        }
        self.looked = Some(now);
        self.idle.retain(|_, buffers| {
            // The oldest lie first: the last one given is the first one taken.
            let kept = buffers.partition_point(|idle| now.duration_since(idle.since) > KEPT);
            old.extend(buffers.drain(..kept).map(|idle| idle.values));
            !buffers.is_empty()
        });
        old
    }
}

impl Default for Pool {
    fn default() -> Self {
        Self::new()
    }
}

/// A panic elsewhere leaves the pool whole: each change is one push or pop.
fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `len` rounded up to a capacity that buffers share: a multiple of an eighth of the power of two
/// at or below it.
fn class_of(len: usize) -> usize {
    let eighth = (1 << len.ilog2()) / 8;
    len.next_multiple_of(eighth)
}
