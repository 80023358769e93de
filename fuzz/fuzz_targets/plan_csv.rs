#![no_main]
//! Reads untrusted rows and dumps as `ringfence plan` does.

use ringfence_planner::Problem;
use ringfence_planner::formats::Format;

mod args {
    /// The options that the reader uses.
    pub struct PlanOptions {
        pub alignment: u64,
        pub format: super::Format,
        pub offsets: Option<super::plan::input::Offsets>,
    }
}

mod failure {
    pub type Failure = Box<dyn std::error::Error>;
}

#[allow(dead_code, reason = "the command uses the rest")]
#[path = "../../crates/ringfence-cli/src/input.rs"]
mod input;

#[allow(dead_code, reason = "the command uses the rest")]
#[path = "../../crates/ringfence-cli/src/plan"]
mod plan {
    pub mod input;
}

#[allow(dead_code, reason = "the command uses the rest")]
#[path = "../../crates/ringfence-cli/src/units.rs"]
mod units;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    ringfence_fuzz::with_file(data, |path| {
        let options = args::PlanOptions { alignment: 256, format: Format::Auto, offsets: None };
        if let Ok(input) = plan::input::read(path, &options) {
            let _ = Problem::new(&input.items).map(|problem| problem.lower_bound());
        }
    });
    ringfence_fuzz::count(1);
});
