//! The frame of a record: its length and its bytes, each with a masked CRC-32C, all little endian.
//!
//! | bytes    | what                          |
//! |----------|-------------------------------|
//! | 8        | length of the data            |
//! | 4        | masked checksum of the length |
//! | length   | data                          |
//! | 4        | masked checksum of the data   |
//!
//! Source: the TFRecord format of TensorFlow.

/// The reversed polynomial of CRC-32C (Castagnoli).
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// What each value of a byte adds to a checksum.
const TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = (byte as u32, 0);
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

/// `data` as one record.
pub(super) fn framed(data: &[u8]) -> Vec<u8> {
    let length = (data.len() as u64).to_le_bytes();
    let mut record = Vec::with_capacity(data.len() + 16);
    record.extend(length);
    record.extend(masked_checksum(&length).to_le_bytes());
    record.extend(data);
    record.extend(masked_checksum(data).to_le_bytes());
    record
}

/// The checksum, turned so that a checksum of data that holds checksums is no special case.
fn masked_checksum(data: &[u8]) -> u32 {
    let crc = !data
        .iter()
        .fold(!0_u32, |crc, &byte| TABLE[((crc ^ u32::from(byte)) & 0xff) as usize] ^ crc >> 8);
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}
