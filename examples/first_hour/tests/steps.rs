//! Runs each step. Compares the code of the guide's chapter "First hour" with the sources of this package.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

macro_rules! steps {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            run(stringify!($name), env!(concat!("CARGO_BIN_EXE_", stringify!($name))));
        })*
    };
}

steps!(
    step_1_open,
    step_2_buffer,
    step_3_clear,
    step_4_triangle,
    step_5_solid,
    step_6_texture,
    step_7_frames,
    step_8_inspect
);

/// Runs a step in a folder of its own. It must succeed, unless there is no device. With `RINGFENCE_REQUIRE_VULKAN`, the
/// device and the validation layer are required.
fn run(name: &str, program: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("the folder is writable");
    let Output { status, stdout, stderr } =
        Command::new(program).current_dir(folder).output().expect("the step can be started");
    let (out, error) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    let is_required = std::env::var_os("RINGFENCE_REQUIRE_VULKAN").is_some();
    if ["vulkan.so", "vulkan-1.dll", "no device", "INCOMPATIBLE_DRIVER"].iter().any(|part| error.contains(part)) {
        assert!(!is_required, "a device is required: {error}");
        eprintln!("skipped: {error}");
        return;
    }
    assert!(status.success(), "{status}\n{out}\n{error}");
    if is_required && name == "step_1_open" {
        assert!(out.contains("validation on"), "the validation layer is required: {out}");
    }
}

#[test]
fn the_chapter_shows_the_sources() {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = Vec::new();
    read_all(&package.join("src"), &mut sources);
    let chapter = std::fs::read_to_string(package.join("../../docs/guide/first-hour.md")).expect("the chapter");
    let blocks = blocks(&chapter);
    assert!(blocks.len() > 8, "the chapter has {} blocks", blocks.len());
    for block in blocks {
        assert!(sources.iter().any(|source| contains(source, &block)), "not in the sources:\n{}", block.join("\n"));
    }
}

#[test]
fn the_pictures_of_the_chapter_are_small() {
    for step in 3..=7 {
        let path = format!("../../docs/guide/first-hour/step_{step}.png");
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        let bytes = path.metadata().expect("each of these steps has a picture").len();
        assert!(bytes <= 40_000, "{} has {bytes} bytes", path.display());
    }
}

/// Reads all files of a folder, as lines.
fn read_all(folder: &Path, into: &mut Vec<Vec<String>>) {
    for entry in folder.read_dir().expect("a folder") {
        let path: PathBuf = entry.expect("an entry").path();
        if path.is_dir() {
            read_all(&path, into);
        } else {
            into.push(std::fs::read_to_string(path).expect("UTF-8").lines().map(str::to_owned).collect());
        }
    }
}

/// Returns the blocks in Rust and WGSL, as lines without the common indentation.
fn blocks(chapter: &str) -> Vec<Vec<String>> {
    let (mut blocks, mut open) = (Vec::new(), None);
    for line in chapter.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => {
                let is_code = language.starts_with("rust") || language == "wgsl";
                open = Some((is_code, Vec::new()));
            }
            (Some(_), Some(_)) => blocks.extend(open.take()),
            (Some((_, lines)), None) => lines.push(line.to_owned()),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "the last block does not end");
    blocks.into_iter().filter(|(is_code, _)| *is_code).map(|(_, lines)| dedented(&lines)).collect()
}

fn contains(source: &[String], block: &[String]) -> bool {
    source.windows(block.len()).any(|window| dedented(window) == block)
}

fn dedented(lines: &[String]) -> Vec<String> {
    let indent = |line: &String| line.len() - line.trim_start().len();
    let least = lines.iter().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or(0);
    lines.iter().map(|line| line.get(least..).unwrap_or("").to_owned()).collect()
}
