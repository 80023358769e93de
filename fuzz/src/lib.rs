//! Counts the operations of fuzz targets, because one run performs many. The count is printed when the fuzzer exits.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

static OPERATIONS: AtomicU64 = AtomicU64::new(0);
static AT_END: Once = Once::new();

unsafe extern "C" {
    fn atexit(function: extern "C" fn()) -> i32;
}

extern "C" fn tell() {
    eprintln!("operations: {}", OPERATIONS.load(Ordering::Relaxed));
}

/// Adds operations that completed without a divergence.
pub fn count(operations: u64) {
    // SAFETY: the function has no arguments, returns, and uses only statics, which live until the process exits.
    AT_END.call_once(|| _ = unsafe { atexit(tell) });
    OPERATIONS.fetch_add(operations, Ordering::Relaxed);
}

/// Writes the bytes to a file that only this process uses, and passes its path to a parser. The file is in memory if
/// `/dev/shm` exists.
pub fn with_file(data: &[u8], read: impl FnOnce(&std::path::Path)) {
    let folder = if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
    let path = folder.join(format!("ringfence-fuzz-{}", std::process::id()));
    std::fs::write(&path, data).expect("a small file can be written");
    read(&path);
    std::fs::remove_file(&path).expect("the file was written above");
}
