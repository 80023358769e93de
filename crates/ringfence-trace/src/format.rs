//! Encoding of numbers, texts and checksums. See `docs/trace-format.md`.

/// First bytes of every trace. They contain line ends, so that a conversion of line ends is detected.
pub const MAGIC: [u8; 8] = *b"\x89RFT\r\n\x1a\n";
/// Version of the format that is written. Older versions can be read, because each version only adds events.
pub const VERSION: u32 = 3;
/// Oldest version of the format that can be read.
pub const VERSION_MIN: u32 = 1;

/// Size of the header of a chunk, in bytes. The header contains the payload's length, the number of events, and a
/// checksum of these two and of the payload.
pub(super) const CHUNK_HEAD_BYTES: usize = 12;
/// Maximum size of a payload, in bytes. The recorder writes much shorter payloads, so a longer one is reported as
/// damage.
pub(super) const PAYLOAD_BYTES_MAX: u32 = 64 << 20;

/// Appends `number` as LEB128: seven bits per byte, the lowest first; the high bit is set if more bytes follow.
pub(super) fn push_number(into: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// Appends the length of the text in bytes, then the text as UTF-8.
pub(super) fn push_text(into: &mut Vec<u8>, text: &str) {
    push_number(into, text.len() as u64);
    into.extend_from_slice(text.as_bytes());
}

/// Decoder of a payload. Its methods return `None` if the bytes are not valid.
pub(super) struct Parts<'a>(pub &'a [u8]);

impl<'a> Parts<'a> {
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    pub fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        std::str::from_utf8(text).ok()
    }
}

/// Returns the CRC-32C (Castagnoli) of `bytes`, continued from `before`, the checksum of the preceding bytes (0 if
/// there are none). Processes eight bytes per step.
pub(super) fn checksum(before: u32, bytes: &[u8]) -> u32 {
    let mut sum = !before;
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let low = u32::from_le_bytes([word[0], word[1], word[2], word[3]]) ^ sum;
        let at = |table: usize, byte: u32| TABLES[table][(byte & 0xff) as usize];
        let high = |index: usize| u32::from(word[4 + index]);
        sum = at(7, low) ^ at(6, low >> 8) ^ at(5, low >> 16) ^ at(4, low >> 24);
        sum ^= at(3, high(0)) ^ at(2, high(1)) ^ at(1, high(2)) ^ at(0, high(3));
    }
    for byte in words.remainder() {
        sum = (sum >> 8) ^ TABLES[0][((sum ^ u32::from(*byte)) & 0xff) as usize];
    }
    !sum
}

static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 { (sum >> 1) ^ 0x82F6_3B78 } else { sum >> 1 };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before: u32 = tables[table - 1][byte];
            tables[table][byte] = (before >> 8) ^ tables[0][(before & 0xff) as usize];
            byte += 1;
        }
        table += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_is_crc_32c() {
        // The check value of the catalogue of CRC parameters, and the vectors of RFC 3720, B.4.
        assert_eq!(checksum(0, b"123456789"), 0xE306_9283);
        assert_eq!(checksum(0, &[0; 32]), 0x8A91_36AA);
        assert_eq!(checksum(0, &[0xff; 32]), 0x62A8_AB43);
        assert_eq!(checksum(checksum(0, b"1234"), b"56789"), 0xE306_9283, "in parts");
    }

    #[test]
    fn numbers_and_texts_come_back_and_damage_is_noticed() {
        let mut bytes = Vec::new();
        let numbers = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX];
        numbers.iter().for_each(|number| push_number(&mut bytes, *number));
        push_text(&mut bytes, "tür");
        let mut parts = Parts(&bytes);
        assert!(numbers.iter().all(|number| parts.number() == Some(*number)));
        assert_eq!((parts.text(), parts.byte()), (Some("tür"), None));
        assert_eq!(Parts(&[0x80]).number(), None);
        assert_eq!(Parts(&[0xff; 11]).number(), None, "more than 64 bits");
        assert_eq!(Parts(&[200, 1, b'a']).text(), None, "longer than the rest of the bytes");
        assert_eq!(Parts(&[1, 0xff]).text(), None, "not UTF-8");
    }
}
