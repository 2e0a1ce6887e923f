//! Memory that is used again.

use std::time::{Duration, Instant};

use burn::tensor::{Shape, Tensor, TensorPrimitive, s};
use training::backend::Cpu;
use training::backend::cpu::buffers::{Buffer, KEPT, Pool, take, zeroed};

/// A size that no other test asks for, so that no other test takes what this one gives back.
const LEN: usize = 1_234_567;

#[test]
fn memory_of_a_tensor_is_taken_again_when_its_last_clone_is_gone() {
    let mut buffer = take(LEN);
    buffer.fill(1.5);
    let place = buffer.as_ptr();
    let tensor = buffer.into_tensor(Shape::from([LEN]));
    let tensor = Tensor::<Cpu, 1>::from_primitive(TensorPrimitive::Float(tensor));
    let clone = tensor.clone();
    drop(tensor);
    assert_ne!(take(LEN).as_ptr(), place, "the clone still holds it");
    let some = clone.clone().slice(s![3..5]).into_data();
    assert_eq!(some.to_vec::<f32>().unwrap(), [1.5, 1.5]);
    drop(clone);

    // The other buffer above waits as well: one of the two has the tensor's place.
    let again = [take(LEN), take(LEN)];
    assert!(again.iter().any(|buffer| buffer.as_ptr() == place));
}

#[test]
fn tensor_on_a_buffer_computes_as_any_other() {
    let values: Vec<f32> = (0..6000).map(|i| (i % 200) as f32).collect();
    let mut buffer = take(values.len());
    buffer.copy_from_slice(&values);
    let tensor = buffer.into_tensor(Shape::from([60, 100]));
    let tensor = Tensor::<Cpu, 2>::from_primitive(TensorPrimitive::Float(tensor));
    let clone = tensor.clone();
    // In place or not: a shared one may not change.
    let sum = (tensor.clone() + 1.0).sum().into_scalar();
    assert_eq!(sum, values.iter().map(|value| value + 1.0).sum::<f32>());
    assert_eq!(clone.into_data().to_vec::<f32>().unwrap(), values);
    let transposed = tensor.transpose().into_data().to_vec::<f32>().unwrap();
    assert_eq!(transposed[..3], [0, 100, 200].map(|place| values[place]));
}

#[test]
fn zeroed_is_zero_whatever_the_memory_held() {
    let len = LEN + 1000;
    take(len).fill(f32::NAN);
    assert!(zeroed(len).iter().all(|value| *value == 0.0));
    // Small ones too, which the allocator keeps.
    take(10).fill(f32::NAN);
    assert_eq!(zeroed(10).to_vec(), [0.0; 10]);
}

#[test]
fn sizes_of_one_class_share_memory_and_keep_their_length() {
    // No other test asks for as many.
    let (long, short) = (7_340_000, 7_200_000);
    let buffer = take(long);
    let place = buffer.as_ptr();
    drop(buffer);
    let buffer = take(short);
    assert_eq!((buffer.as_ptr(), buffer.len()), (place, short));
    drop(buffer);
    assert_eq!(take(long).len(), long);
}

#[test]
fn vector_of_a_buffer_becomes_one_again_without_a_copy() {
    let values = take(5000).into_vec();
    let place = values.as_ptr();
    let back = Buffer::of_vec(values).into_vec();
    assert_eq!((back.as_ptr(), back.len()), (place, 5000));
    assert!(take(0).is_empty());
}

#[test]
fn last_buffer_given_is_the_first_one_taken() {
    let (mut pool, now) = (Pool::new(), Instant::now());
    let buffers = [0.5, 1.5].map(|value| vec![value; 4096]);
    let places = buffers.each_ref().map(Vec::as_ptr);
    for buffer in buffers {
        assert!(pool.give(buffer, now).is_empty());
    }
    assert!(pool.take(8192, now).0.is_none(), "another size");
    let taken = [0, 1].map(|_| pool.take(4096, now).0.unwrap());
    assert_eq!(taken.each_ref().map(|buffer| buffer[0]), [1.5, 0.5]);
    assert_eq!(taken.each_ref().map(Vec::as_ptr), [places[1], places[0]]);
    assert!(pool.take(4096, now).0.is_none());
}

#[test]
fn buffer_that_nobody_wants_for_long_is_given_back_to_the_system() {
    let (mut pool, start) = (Pool::new(), Instant::now());
    let second = Duration::from_secs(1);
    assert!(pool.give(vec![0.0; 4096], start).is_empty());
    assert!(pool.give(vec![0.0; 8192], start + KEPT - second).is_empty());
    // Both the hit and the miss look for what is old.
    let later = start + KEPT + second;
    let (found, old) = pool.take(8192, later);
    assert!(found.is_some());
    assert_eq!(old.iter().map(Vec::len).collect::<Vec<_>>(), [4096]);
    let (found, old) = pool.take(4096, later + second);
    assert!(found.is_none() && old.is_empty());

    // However many come and go, what waits is what came in the last seconds.
    let waiting: usize = (0..10_000)
        .map(|i| {
            let old = pool.give(vec![0.0; 4096], later + second * (2 + i / 100));
            1_usize.wrapping_sub(old.len())
        })
        .fold(0, usize::wrapping_add);
    assert!(waiting <= 100 * (KEPT.as_secs() as usize + 2), "{waiting}");
}

#[test]
#[should_panic(expected = "as many numbers as the shape has")]
fn tensor_of_another_size_is_refused() {
    let _ = take(12).into_tensor(Shape::from([3, 5]));
}
