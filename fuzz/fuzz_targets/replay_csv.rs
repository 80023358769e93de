#![no_main]
//! Reads an untrusted trace as `ringfence replay` does: the CSV of the command line, a recording of another allocator,
//! or Ringfence's own format.

mod failure {
    pub type Failure = Box<dyn std::error::Error>;
}

#[allow(dead_code, reason = "the command uses the rest")]
#[path = "../../crates/ringfence-cli/src/input.rs"]
mod input;

#[allow(dead_code, reason = "the command uses the rest")]
#[path = "../../crates/ringfence-cli/src/replay"]
mod replay {
    pub mod input;
    mod lines;
    mod own;
    mod spool;
    mod vma;
}

#[allow(dead_code, reason = "the command uses the rest")]
#[path = "../../crates/ringfence-cli/src/units.rs"]
mod units;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let progress = indicatif::ProgressBar::hidden();
    ringfence_fuzz::with_file(data, |path| {
        let _ = replay::input::read(path, &progress);
    });
    ringfence_fuzz::count(1);
});
