//! Git's binary literals: deflated bytes in base 85, 52 to a line.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::ZlibEncoder;

const ALPHABET: &[u8; 85] =
    b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

/// Bytes that one line carries.
const LINE: usize = 52;

/// Writes `content` as one literal, with the blank line that ends it.
pub(crate) fn literal(out: &mut impl Write, content: &[u8]) -> io::Result<()> {
    let mut deflate = ZlibEncoder::new(Vec::new(), Compression::default());
    deflate.write_all(content)?;
    let packed = deflate.finish()?;
    writeln!(out, "literal {}", content.len())?;
    for line in packed.chunks(LINE) {
        out.write_all(&[length(line.len())])?;
        for group in line.chunks(4) {
            out.write_all(&digits(group))?;
        }
        out.write_all(b"\n")?;
    }
    out.write_all(b"\n")
}

/// The letter that says how many bytes a line carries: A for 1, Z for 26, a for 27, z for 52.
fn length(bytes: usize) -> u8 {
    let n = u8::try_from(bytes).unwrap_or(0);
    if n <= 26 { b'A' - 1 + n } else { b'a' + n - 27 }
}

/// Four bytes, padded with zeros, as five digits.
fn digits(group: &[u8]) -> [u8; 5] {
    let mut number = [0_u8; 4];
    for (to, from) in number.iter_mut().zip(group) {
        *to = *from;
    }
    let mut rest = u32::from_be_bytes(number);
    let mut digits = [0_u8; 5];
    for digit in digits.iter_mut().rev() {
        let index = usize::try_from(rest % 85).unwrap_or(0);
        *digit = ALPHABET.get(index).copied().unwrap_or(b'0');
        rest /= 85;
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_lengths_are_gits_own() {
        // The deflated empty string that git writes for an empty file: 78 01 03 00 00 00 00 01.
        let empty = [0x78, 0x01, 0x03, 0, 0, 0, 0, 1];
        let text: Vec<u8> = empty.chunks(4).flat_map(digits).collect();
        assert_eq!((length(8), text.as_slice()), (b'H', &b"cmV?d00001"[..]));
        assert_eq!([1, 26, 27, 52].map(length), [b'A', b'Z', b'a', b'z']);
    }
}
