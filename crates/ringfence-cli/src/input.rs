//! Input of the command: files, or standard input if the path is `-`.

use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

/// Maximum number of bytes of an input that is read into memory: 2 GiB. A device or a pipe may be endless.
const WHOLE_BYTES_MAX: u64 = 2 << 30;

/// Returns `true` if the path is `-`, which means standard input or output.
pub fn is_dash(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Returns the name of an input, as messages print it.
pub fn name_of(path: &Path) -> String {
    if is_dash(path) { "standard input".to_owned() } else { path.display().to_string() }
}

pub fn open(path: &Path) -> io::Result<Box<dyn Read>> {
    Ok(if is_dash(path) { Box::new(io::stdin().lock()) } else { Box::new(BufReader::new(File::open(path)?)) })
}

/// Reads all remaining bytes.
///
/// # Errors
/// The bytes cannot be read, or there are more than 2 GiB.
pub fn read_whole(from: impl Read) -> io::Result<Vec<u8>> {
    read_at_most(WHOLE_BYTES_MAX, from)
}

fn read_at_most(most: u64, from: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if from.take(most + 1).read_to_end(&mut bytes)? as u64 > most {
        let what = format!("expected at most {}, found more", crate::units::bytes(most));
        return Err(io::Error::new(ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_end_is_refused() {
        assert_eq!(read_at_most(3, &b"abc"[..]).expect("no more than that"), b"abc");
        let error = read_at_most(1024, io::repeat(0)).expect_err("it has no end");
        assert_eq!(error.to_string(), "expected at most 1 KiB, found more");
    }
}
