//! Counts what fuzz targets do: operations, not runs. The count is printed when the fuzzer ends.

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

/// Adds operations that were done without a difference.
pub fn count(operations: u64) {
    // SAFETY: the function takes nothing, returns, and touches statics only, which live to the end.
    AT_END.call_once(|| _ = unsafe { atexit(tell) });
    OPERATIONS.fetch_add(operations, Ordering::Relaxed);
}

/// Has a parser of files read these bytes: from a file of this process's own, in memory where there is such a place.
pub fn with_file(data: &[u8], read: impl FnOnce(&std::path::Path)) {
    let folder = if std::path::Path::new("/dev/shm").is_dir() { "/dev/shm".into() } else { std::env::temp_dir() };
    let path = folder.join(format!("ringfence-fuzz-{}", std::process::id()));
    std::fs::write(&path, data).expect("there is room for a small file");
    read(&path);
    std::fs::remove_file(&path).expect("it was written just now");
}
