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

/// Refuses, before any work is done, that a file is written twice, or written over an input: one would be lost. `-`
/// stands for standard output.
pub fn check_apart(inputs: &[&Path], outputs: &[(&str, Option<&Path>)]) -> Result<(), String> {
    let mut known: Vec<(String, Place)> = Vec::new();
    for path in inputs.iter().filter(|path| path.as_os_str() != "-") {
        known.extend(place(path).map(|place| ("the input".to_owned(), place)));
    }
    for (option, path) in outputs.iter().filter_map(|(option, path)| Some((option, (*path)?))) {
        let Some(place) = place(path) else { continue };
        if let Some((other, _)) = known.iter().find(|held| held.1 == place) {
            let path = if path.as_os_str() == "-" { "standard output".into() } else { path.display().to_string() };
            return Err(format!("expected {option} to be another file than {other}, both are {path}"));
        }
        known.push(((*option).to_owned(), place));
    }
    Ok(())
}

/// A file that there is, or where one will be.
#[derive(PartialEq)]
enum Place {
    /// By its device and number: a hard link is the same file.
    #[cfg(unix)]
    Node(u64, u64),
    Path(PathBuf),
}

/// What a path leads to, if that is a file or will be one: to a device much can be written.
fn place(path: &Path) -> Option<Place> {
    let path = &target(path).ok()?;
    match fs::metadata(path) {
        Ok(found) => found.is_file().then(|| node(path, &found)),
        Err(_) => {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let folder = fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
            Some(Place::Path(folder.join(path.file_name()?)))
        }
    }
}

#[cfg(unix)]
fn node(_: &Path, found: &fs::Metadata) -> Place {
    use std::os::unix::fs::MetadataExt;
    Place::Node(found.dev(), found.ino())
}

#[cfg(not(unix))]
fn node(path: &Path, _: &fs::Metadata) -> Place {
    Place::Path(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
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

/// Where a path's symbolic links lead in the end, to a file that there is or will be.
fn target(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(link) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(link);
    }
    Err(io::Error::other("it is a symbolic link that leads to too many others"))
}

/// As many links as Linux follows.
const LINKS_MAX: usize = 40;

fn try_check(path: &Path) -> io::Result<()> {
    let path = &target(path)?;
    let found = fs::metadata(path);
    if found.is_ok() {
        // Opened without truncating: only the right to write is requested.
        OpenOptions::new().write(true).open(path)?;
    }
    if found.is_ok_and(|found| !found.is_file()) {
        return Ok(());
    }
    let partial = partial(path)?;
    File::create_new(&partial)?;
    fs::remove_file(&partial)
}

fn try_write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // What is replaced is the file, not a link to it.
    let path = &target(path)?;
    let found = fs::metadata(path).ok();
    // A device or a pipe is written to as it is; putting a file in its place would destroy it.
    if found.as_ref().is_some_and(|found| !found.is_file()) {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let partial = partial(path)?;
    let write = || {
        let mut file = File::create(&partial)?;
        // Before the first byte: what others may not read they do not read meanwhile.
        found.map_or(Ok(()), |found| file.set_permissions(found.permissions()))?;
        file.write_all(bytes)
    };
    let written = write().and_then(|()| fs::rename(&partial, path));
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
