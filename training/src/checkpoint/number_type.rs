//! Numbers in files: `f32`, and the two halves of it that other programs write.

/// How a file holds its numbers, little end first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NumberType {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary16.
    F16,
    /// The upper half of an `f32`.
    BF16,
}

impl NumberType {
    /// Bytes of one number.
    pub(super) fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::BF16 => 2,
        }
    }

    /// Reads `bytes` into `values`, of which there are as many; every number is exact in `f32`.
    pub(super) fn read(self, bytes: &[u8], values: &mut [f32]) {
        match self {
            Self::F32 => fill(bytes, values, f32::from_le_bytes),
            Self::F16 => fill(bytes, values, |bytes| from_f16(u16::from_le_bytes(bytes))),
            Self::BF16 => fill(bytes, values, |bytes| {
                f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
            }),
        }
    }
}

fn fill<const N: usize>(bytes: &[u8], values: &mut [f32], number: impl Fn([u8; N]) -> f32) {
    for (value, bytes) in values.iter_mut().zip(bytes.chunks_exact(N)) {
        *value = number(bytes.try_into().expect("chunks of N bytes"));
    }
}

/// A sign, five bits of exponent and ten of fraction.
fn from_f16(bits: u16) -> f32 {
    const FRACTION_BITS: u32 = 10;
    let sign = u32::from(bits >> 15) << 31;
    let exponent = u32::from(bits >> FRACTION_BITS) & 0x1f;
    let fraction = u32::from(bits) & 0x3ff;
    match exponent {
        // Zero, and numbers below 2^-14: multiples of 2^-24.
        0 => f32::from_bits((fraction as f32 / 16_777_216.0).to_bits() | sign),
        0x1f => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        // The bias is 127 instead of 15.
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}
