//! Output files. A regular file is either written completely, or not changed. A device or a pipe is written directly.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// An error that occurred while a file was written.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {error}", path.display())]
pub struct OutputError {
    path: PathBuf,
    error: io::Error,
}

/// Checks that `path` can be written. Called before the work, and leaves no file.
pub fn check(path: &Path) -> Result<(), OutputError> {
    try_check(path).map_err(|error| OutputError { path: path.to_owned(), error })
}

/// Fails if two outputs are the same file, or an output is an input. Called before the work. The path `-` is standard
/// output.
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

/// Identity of a file. Two paths of one file have equal identities.
#[derive(PartialEq)]
enum Place {
    /// Device and inode of an existing file. Hard links to one file have equal numbers.
    #[cfg(unix)]
    Node(u64, u64),
    Path(PathBuf),
}

/// Returns the identity of the file at a path. Returns `None` for a device or a pipe, because several outputs may be
/// written to it.
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

/// Writes a file under another name, then renames it. If this fails, the file has its previous content. A device or a
/// pipe is written directly.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), OutputError> {
    try_write(path, bytes).map_err(|error| OutputError { path: path.to_owned(), error })
}

/// Writes a file as [`write`] does, or to standard output if the path is `-`.
pub fn write_or_print(path: &Path, bytes: &[u8]) -> Result<(), crate::failure::Failure> {
    if path.as_os_str() == "-" {
        io::stdout().lock().write_all(bytes)?;
        return Ok(());
    }
    Ok(write(path, bytes)?)
}

/// Follows the symbolic links of a path, and returns the last path. The file need not exist.
fn target(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(link) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(link);
    }
    Err(io::Error::other("too many symbolic links in a row"))
}

/// Maximum number of symbolic links that are followed, as on Linux.
const LINKS_MAX: usize = 40;

fn try_check(path: &Path) -> io::Result<()> {
    let path = &target(path)?;
    let found = fs::metadata(path);
    if found.is_ok() {
        // Opens the file without truncating it, which only checks the permission to write.
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
    // If the path is a symbolic link, the target of the link is replaced, not the link.
    let path = &target(path)?;
    let found = fs::metadata(path).ok();
    // A device or a pipe is written directly, because a rename would replace it by a file.
    if found.as_ref().is_some_and(|found| !found.is_file()) {
        return OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let partial = partial(path)?;
    let write = || {
        let mut file = File::create(&partial)?;
        // The permissions are set before the first byte is written, so that the partial file is as protected as the old
        // file.
        found.map_or(Ok(()), |found| file.set_permissions(found.permissions()))?;
        file.write_all(bytes)
    };
    let written = write().and_then(|()| fs::rename(&partial, path));
    if written.is_err() {
        let _ = fs::remove_file(&partial);
    }
    written
}

/// Returns the path of the partial file: in the folder of `path`, with a name that no other process uses.
fn partial(path: &Path) -> io::Result<PathBuf> {
    let name = path.file_name().ok_or_else(|| io::Error::other("the path has no file name"))?;
    let mut partial = name.to_owned();
    partial.push(format!(".partial-{}", std::process::id()));
    Ok(path.with_file_name(partial))
}
