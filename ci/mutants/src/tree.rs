//! A copy of the sources, in which each crate under test has the module that reads the number of the active mutant.

use std::path::Path;
use std::process::Command;

use crate::programs::folder;

const MODULE: &str = r##"#![allow(unsafe_code)]
use std::boxed::Box;
static mut ACTIVE: u32 = 0;
const fn off(_: u32) -> bool {
    false
}
#[inline]
fn is(number: u32) -> bool {
    // SAFETY: it is written only before `main`.
    unsafe { ACTIVE == number }
}
// At compile time a function runs without its mutants.
#[inline]
pub const fn on(number: u32) -> bool {
    core::intrinsics::const_eval_select((number,), off, is)
}
// For functions that return `impl Iterator`: the iterator of the original, or that of a mutant.
pub struct Either<'a, I: Iterator>(Option<Box<dyn Iterator<Item = I::Item> + 'a>>, I);
impl<I: Iterator> Iterator for Either<'_, I> {
    type Item = I::Item;
    fn next(&mut self) -> Option<I::Item> {
        match &mut self.0 {
            Some(instead) => instead.next(),
            None => self.1.next(),
        }
    }
}
pub fn either<'a, I: Iterator>(instead: Option<Box<dyn Iterator<Item = I::Item> + 'a>>, real: I) -> Either<'a, I> {
    Either(instead, real)
}
extern "C" fn read() {
    let number = std::env::var("RINGFENCE_MUTANT").ok().and_then(|text| text.parse().ok());
    // SAFETY: there is only one thread so far.
    unsafe { ACTIVE = number.unwrap_or(0) };
}
#[used]
#[unsafe(link_section = ".init_array")]
static READ: extern "C" fn() = read;
"##;

/// Copies the files that git knows into `tree`, and prepares `crates` there.
pub fn make(tree: &Path, crates: &[String]) -> Result<(), String> {
    _ = std::fs::remove_dir_all(tree);
    std::fs::create_dir_all(tree).map_err(|error| format!("{}: {error}", tree.display()))?;
    let copy = format!("git ls-files -z | xargs -0 cp --parents -pd -t '{}'", tree.display());
    let copied = Command::new("bash").args(["-c", &copy]).status().is_ok_and(|status| status.success());
    if !copied {
        return Err(format!("the sources cannot be copied to {}", tree.display()));
    }
    crates.iter().try_for_each(|name| prepare(&tree.join(folder(name)).join("src"), name))
}

fn prepare(source: &Path, name: &str) -> Result<(), String> {
    let root = if source.join("lib.rs").exists() { source.join("lib.rs") } else { source.join("main.rs") };
    let text = std::fs::read_to_string(&root).map_err(|error| format!("{name}: {}: {error}", root.display()))?;
    let lints = "#![allow(warnings, arithmetic_overflow, unconditional_panic, unconditional_recursion, clippy::all)]\n";
    let features = "#![feature(core_intrinsics, const_eval_select)]\n";
    let text = text.replace("#![forbid(unsafe_code)]", "#![deny(unsafe_code)]");
    // Inner attributes and the crate's documentation must come first.
    let text = format!("{lints}{features}{text}\n#[doc(hidden)]\npub mod mutant;\n");
    let written = std::fs::write(&root, text).and_then(|()| std::fs::write(source.join("mutant.rs"), MODULE));
    written.map_err(|error| format!("{name}: {error}"))
}
