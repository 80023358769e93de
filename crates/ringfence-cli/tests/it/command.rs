//! Starts the command as a user does.
#![allow(dead_code, reason = "each test file uses a part")]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Output and exit code of a finished command.
pub struct Answer {
    pub out: String,
    pub err: String,
    pub code: Option<i32>,
}

impl Answer {
    pub fn is_success(&self) -> bool {
        self.code == Some(0)
    }
}

pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringfence"));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

pub fn ringfence(arguments: &[&str]) -> Answer {
    ringfence_with_input(arguments, b"")
}

pub fn ringfence_with_input(arguments: &[&str], input: &[u8]) -> Answer {
    let mut child = command().args(arguments).stdin(Stdio::piped()).spawn().expect("the command starts");
    let mut stdin = child.stdin.take().expect("its input is a pipe");
    let run = std::thread::scope(|scope| {
        // The command may end before it has read its whole input.
        scope.spawn(move || _ = stdin.write_all(input));
        child.wait_with_output().expect("the command ends")
    });
    let text = |bytes| String::from_utf8(bytes).expect("the command writes text");
    Answer { out: text(run.stdout), err: text(run.stderr), code: run.status.code() }
}

/// Returns the folder of recorded cases: the value of `RINGFENCE_CASES`, or a folder `shared/data` in a folder that
/// contains the package.
pub fn cases() -> Option<PathBuf> {
    let named = std::env::var_os("RINGFENCE_CASES").map(PathBuf::from);
    let above = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("shared/data"));
    let found = named.into_iter().chain(above).find(|folder| folder.join("traces").is_dir());
    if found.is_none() {
        println!("skipped: no folder of real cases (RINGFENCE_CASES)");
    }
    found
}

/// Returns an empty folder for a test's files.
pub fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the target's folder can be written");
    folder
}
