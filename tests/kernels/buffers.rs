//! Memory that is used again.

use burn::tensor::{Shape, Tensor, TensorPrimitive, s};
use training::backend::Cpu;
use training::backend::cpu::buffers::{Buffer, take, zeroed};

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
    let (long, short) = (3_100_000, 3_000_000);
    let buffer = take(long);
    let place = buffer.as_ptr();
    drop(buffer);
    let buffer = take(short);
    assert_eq!((buffer.as_ptr(), buffer.len()), (place, short));
    drop(buffer);
    assert_eq!(take(long).len(), long);
}

#[test]
fn vector_becomes_a_buffer_and_back_without_a_copy() {
    let values = vec![2.0; 5000];
    let place = values.as_ptr();
    let back = Buffer::from(values).into_vec();
    assert_eq!((back.as_ptr(), back.len()), (place, 5000));
    assert!(take(0).is_empty());
}

#[test]
#[should_panic(expected = "as many numbers as the shape has")]
fn tensor_of_another_size_is_refused() {
    let _ = take(12).into_tensor(Shape::from([3, 5]));
}
