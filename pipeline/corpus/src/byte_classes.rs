//! Which of 64 bytes belong to words, as bits.
//!
//! On x86-64 by SSE2, which every such processor has; elsewhere by arithmetic on eight bytes at a
//! time. Either takes a small part of the time of hashing the words that the bits show, so wider
//! registers would gain nothing.

/// Classes of 64 bytes; the lowest bit stands for the first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ByteClasses {
    /// ASCII letters and digits.
    pub alphanumeric: u64,
    /// The character `_`.
    pub underscore: u64,
    /// Bytes of characters beyond ASCII.
    pub beyond_ascii: u64,
}

impl ByteClasses {
    /// The classes of the bytes of `block`.
    #[inline]
    #[must_use]
    pub fn of(block: &[u8; 64]) -> Self {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: SSE2 is part of x86-64.
        return unsafe { Self::of_sse2(block) };
        #[cfg(not(target_arch = "x86_64"))]
        return Self::of_portable(block);
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "sse2")]
    #[inline]
    fn of_sse2(block: &[u8; 64]) -> Self {
        use std::arch::x86_64::{
            __m128i, _mm_cmpeq_epi8, _mm_loadu_si128, _mm_min_epu8, _mm_movemask_epi8,
            _mm_or_si128, _mm_set1_epi8, _mm_sub_epi8,
        };

        let mut classes = Self { alphanumeric: 0, underscore: 0, beyond_ascii: 0 };
        for (number, bytes) in block.as_chunks::<16>().0.iter().enumerate() {
            // SAFETY: 16 bytes are read from an array of 16, at any alignment.
            let bytes = unsafe { _mm_loadu_si128(bytes.as_ptr().cast::<__m128i>()) };
            // Unsigned `low <= bytes <= low + width`.
            let within = |bytes: __m128i, low: u8, width: i8| {
                let above_low = _mm_sub_epi8(bytes, _mm_set1_epi8(low as i8));
                _mm_cmpeq_epi8(_mm_min_epu8(above_low, _mm_set1_epi8(width)), above_low)
            };
            let letter = within(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), b'a', 25);
            let digit = within(bytes, b'0', 9);
            let underscore = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'_' as i8));
            let bits = |mask: __m128i| u64::from(_mm_movemask_epi8(mask) as u16) << (16 * number);
            classes.alphanumeric |= bits(_mm_or_si128(letter, digit));
            classes.underscore |= bits(underscore);
            classes.beyond_ascii |= bits(bytes);
        }
        classes
    }

    /// The same by arithmetic on eight bytes at a time.
    #[cfg_attr(target_arch = "x86_64", cfg(test))]
    #[inline]
    fn of_portable(block: &[u8; 64]) -> Self {
        const ONES: u64 = 0x0101_0101_0101_0101;
        const HIGHEST: u64 = 0x8080_8080_8080_8080;

        let mut classes = Self { alphanumeric: 0, underscore: 0, beyond_ascii: 0 };
        for (number, bytes) in block.as_chunks::<8>().0.iter().enumerate() {
            let bytes = u64::from_le_bytes(*bytes);
            let ascii = bytes & !HIGHEST;
            // The highest bit of each byte says `byte >= low`, for bytes and limits below 128.
            let at_least = |bytes: u64, low: u8| bytes + ONES * u64::from(0x80 - low);
            let within =
                |bytes: u64, low: u8, high: u8| at_least(bytes, low) & !at_least(bytes, high + 1);
            let letter = within(ascii | (ONES * 0x20), b'a', b'z');
            let alphanumeric = letter | within(ascii, b'0', b'9');
            let underscore = within(ascii, b'_', b'_');
            // Collects the highest bits: the factor brings the one of byte n to bit 56 + n.
            let bits = |mask: u64| {
                ((mask & HIGHEST) >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56 << (8 * number)
            };
            classes.alphanumeric |= bits(alphanumeric & !bytes);
            classes.underscore |= bits(underscore & !bytes);
            classes.beyond_ascii |= bits(bytes);
        }
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(block: &[u8; 64]) -> ByteClasses {
        let bits = |is_in: fn(u8) -> bool| {
            block.iter().rev().fold(0, |bits, &byte| bits << 1 | u64::from(is_in(byte)))
        };
        ByteClasses {
            alphanumeric: bits(|byte| byte.is_ascii_alphanumeric()),
            underscore: bits(|byte| byte == b'_'),
            beyond_ascii: bits(|byte| !byte.is_ascii()),
        }
    }

    #[test]
    fn every_byte_at_every_place_is_classed_right() {
        for shift in 0..256 {
            let block = std::array::from_fn(|place| (place * 5 + shift) as u8);
            assert_eq!(ByteClasses::of(&block), plain(&block));
            assert_eq!(ByteClasses::of_portable(&block), plain(&block));
        }
    }
}
