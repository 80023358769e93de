#![no_main]
//! Reads untrusted rows and dumps as `ringfence plan` does.

use ringfence_alias::Problem;

mod failure {
    pub type Failure = Box<dyn std::error::Error>;
}

#[allow(dead_code, reason = "the command uses the rest")]
#[path = "../../crates/ringfence-cli/src/plan"]
mod plan {
    pub mod formats;
    pub mod input;
}

use plan::{formats::Format, input};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringfence_fuzz::with_file(data, |path| {
        if let Ok(input) = input::read(path, 256, Format::Auto) {
            let _ = Problem::new(&input.items).map(|problem| problem.lower_bound());
        }
    });
    ringfence_fuzz::count(1);
});
