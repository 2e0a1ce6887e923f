//! The number formats that a shard's tokens can have.

use serde::{Deserialize, Serialize};

use super::ShardFault;

/// Vocabularies of this size and more are stored in 32 bits. Megatron-LM switches here, not at
/// 65,536; its shards of vocabularies in between are read all the same, for the index says what the
/// data holds.
const FIRST_WIDE_VOCABULARY: usize = 65_500;

/// Number format of the tokens in a `.bin` file, by numpy's name; always little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[expect(missing_docs, reason = "numpy's names")]
pub enum DType {
    Uint8,
    Int8,
    Int16,
    Int32,
    Int64,
    Float64,
    Float32,
    Uint16,
}

impl DType {
    /// The format in which a vocabulary of `vocab_size` is written.
    pub fn for_vocabulary(vocab_size: usize) -> Self {
        if vocab_size < FIRST_WIDE_VOCABULARY { Self::Uint16 } else { Self::Int32 }
    }

    /// The number that stands for this format in an index.
    pub fn code(self) -> u8 {
        match self {
            Self::Uint8 => 1,
            Self::Int8 => 2,
            Self::Int16 => 3,
            Self::Int32 => 4,
            Self::Int64 => 5,
            Self::Float64 => 6,
            Self::Float32 => 7,
            Self::Uint16 => 8,
        }
    }

    /// The format that `code` stands for.
    ///
    /// # Errors
    ///
    /// [`ShardFault::UnknownDType`] for a code that stands for none, [`ShardFault::FloatTokens`]
    /// for a format whose numbers are no tokens.
    pub fn from_code(code: u8) -> Result<Self, ShardFault> {
        match code {
            1 => Ok(Self::Uint8),
            2 => Ok(Self::Int8),
            3 => Ok(Self::Int16),
            4 => Ok(Self::Int32),
            5 => Ok(Self::Int64),
            6 | 7 => Err(ShardFault::FloatTokens { code }),
            8 => Ok(Self::Uint16),
            _ => Err(ShardFault::UnknownDType { code }),
        }
    }

    /// Size of a token, in bytes.
    pub fn width(self) -> usize {
        match self {
            Self::Uint8 | Self::Int8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Float32 => 4,
            Self::Int64 | Self::Float64 => 8,
        }
    }

    /// Appends the bytes of `tokens`. What does not fit into this format, which is one that shards
    /// are written in, is cut off.
    pub(super) fn encode(self, tokens: &[u32], bytes: &mut Vec<u8>) {
        let start = bytes.len();
        bytes.resize(start + tokens.len() * self.width(), 0);
        let room = &mut bytes[start..];
        match self {
            Self::Uint16 => narrow(tokens, room, |token| (token as u16).to_le_bytes()),
            _ => narrow(tokens, room, u32::to_le_bytes),
        }
    }

    /// Reads `tokens.len()` tokens from as many numbers; `Err` holds the place and value of the
    /// first that is no token.
    pub(super) fn decode(self, bytes: &[u8], tokens: &mut [u32]) -> Result<(), (usize, i64)> {
        match self {
            Self::Uint8 => copy(bytes, tokens, |[byte]: [u8; 1]| u32::from(byte)),
            Self::Uint16 => copy(bytes, tokens, |number| u32::from(u16::from_le_bytes(number))),
            Self::Int8 => return checked(bytes, tokens, |number| i8::from_le_bytes(number).into()),
            Self::Int16 => {
                return checked(bytes, tokens, |number| i16::from_le_bytes(number).into());
            }
            Self::Int32 => {
                return checked(bytes, tokens, |number| i32::from_le_bytes(number).into());
            }
            Self::Int64 => return checked(bytes, tokens, i64::from_le_bytes),
            Self::Float64 | Self::Float32 => {
                unreachable!("no index with floating-point tokens is opened")
            }
        }
        Ok(())
    }
}

fn narrow<const W: usize>(tokens: &[u32], bytes: &mut [u8], number: impl Fn(u32) -> [u8; W]) {
    let (numbers, _) = bytes.as_chunks_mut::<W>();
    for (bytes, &token) in numbers.iter_mut().zip(tokens) {
        *bytes = number(token);
    }
}

fn copy<const W: usize>(bytes: &[u8], tokens: &mut [u32], number: impl Fn([u8; W]) -> u32) {
    let (numbers, _) = bytes.as_chunks::<W>();
    for (token, &bytes) in tokens.iter_mut().zip(numbers) {
        *token = number(bytes);
    }
}

fn checked<const W: usize>(
    bytes: &[u8],
    tokens: &mut [u32],
    number: impl Fn([u8; W]) -> i64,
) -> Result<(), (usize, i64)> {
    let (numbers, _) = bytes.as_chunks::<W>();
    for (index, (token, &bytes)) in tokens.iter_mut().zip(numbers).enumerate() {
        let value = number(bytes);
        *token = u32::try_from(value).map_err(|_| (index, value))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vocabularies_below_65500_take_16_bits() {
        for (vocab_size, dtype) in [
            (1, DType::Uint16),
            (50_257, DType::Uint16),
            (65_499, DType::Uint16),
            (65_500, DType::Int32),
            (65_536, DType::Int32),
            (65_537, DType::Int32),
        ] {
            assert_eq!(DType::for_vocabulary(vocab_size), dtype, "{vocab_size}");
        }
    }

    #[test]
    fn codes_are_those_of_megatron() {
        for code in [1, 2, 3, 4, 5, 8] {
            assert_eq!(DType::from_code(code).unwrap().code(), code);
        }
        for code in [0, 6, 7, 9, 255] {
            assert!(DType::from_code(code).is_err(), "{code}");
        }
    }

    #[test]
    fn negative_and_huge_numbers_are_no_tokens() {
        let mut tokens = [0; 2];
        let bytes = [5_i64.to_le_bytes(), (1_i64 << 32).to_le_bytes()].concat();
        assert_eq!(DType::Int64.decode(&bytes, &mut tokens), Err((1, 1 << 32)));
        assert_eq!(DType::Int8.decode(&[7, 0xff], &mut tokens), Err((1, -1)));
        assert_eq!(DType::Uint8.decode(&[7, 0xff], &mut tokens), Ok(()));
        assert_eq!(tokens, [7, 255]);
    }
}
