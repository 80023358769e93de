//! Files that appear whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Why a file cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}", path.display())]
pub struct OutputError {
    path: PathBuf,
    error: io::Error,
}

/// Checks, before any work is done, that `path` can be written; leaves nothing behind.
pub fn check(path: &Path) -> Result<(), OutputError> {
    try_check(path).map_err(|error| OutputError { path: path.to_owned(), error })
}

/// Writes the file: under another name first, so that a failure leaves what was there before.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    try_write(path, bytes).map_err(|error| OutputError { path: path.to_owned(), error })
}

/// As [`write`]; `-` is standard output.
pub fn write_or_print(path: &Path, bytes: &[u8]) -> Result<(), crate::failure::Failure> {
    if path.as_os_str() == "-" {
        io::stdout().lock().write_all(bytes)?;
        return Ok(());
    }
    Ok(write(path, bytes)?)
}

fn try_check(path: &Path) -> io::Result<()> {
    match fs::metadata(path) {
        // Opened without truncating: only the right to write is requested.
        Ok(_) => OpenOptions::new().write(true).open(path).map(drop),
        Err(_) => {
            let partial = partial(path)?;
            File::create_new(&partial)?;
            fs::remove_file(&partial)
        }
    }
}

fn try_write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A device or a pipe is written to as it is; putting a file in its place would destroy it.
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let partial = partial(path)?;
    let written = fs::write(&partial, bytes).and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

/// A name beside `path` that no other process uses.
fn partial(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::other("that is not the name of a file"))?;
    let mut partial = name.to_owned();
    partial.push(format!(".partial-{}", std::process::id()));
    Ok(path.with_file_name(partial))
}
