//! The fault walker: a scenario runs once to count its driver calls, and then once for each of them, with that call
//! failing.
//!
//! ```text
//!   for each k ── for each error
//!        the k-th call fails          ▶ typed error ▶ validate ▶ the same call again ▶ the scenario ends well, bytes right
//!        all calls from k on fail     ▶ typed error ▶ validate ▶ the fault ends      ▶ the scenario, again, ends well
//!        the device is lost at call k ▶ typed error ▶ validate ▶ everything goes     ▶ nothing waits for ever
//!   and then: nothing left on the device, nothing released twice (the hazard finder, the validation layers)
//! ```
//!
//! A scenario is a function over a [`Stage`]; what may fail in it goes through [`Stage::step`] or a [`Trial`], which do
//! it again. [`Walk::scenario`] runs one on any [`Gpu`]. A failure names the scenario, the call and the error;
//! `RINGFENCE_FAULT='scenario,k'` runs it alone.
//!
//! ```
//! use ringfence::device::DeviceError;
//! use ringfence::{Location, sim};
//! use ringfence_testkit::faults::{Lasting, Table, Walk};
//! use ringfence_testkit::sim::SimGpu;
//!
//! let mut table = Table::default();
//! let walk = Walk { errors: &[DeviceError::OutOfDeviceMemory], lasting: &[Lasting::Once], ..Walk::default() };
//! let open = || (SimGpu::with_profile(sim::Profile::h200(), sim::SimOptions::default()).unwrap(), None);
//! walk.scenario("an upload buffer", &open, &|stage| stage.filled(&[7; 64]).map(drop), &mut table);
//! assert!(table.runs > 0);
//! ```

mod gpu;
mod stage;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use ringfence::device::DeviceError;
use ringfence::device::fault::{Call, Rule};
use ringfence::{AllocatorDesc, Timeline};

use crate::Gpu;
use crate::sim::SimGpu;

pub use gpu::FaultyGpu;
pub use stage::{Behind, Failure, FaultyBuffer, Outcome, Stage, Trial, copy, pattern};

/// What a scenario does.
pub type Scenario<'a, G> = &'a dyn Fn(&mut Stage<G>) -> Outcome;

/// What loses the device in truth, once a call reports that it is lost; `None` if nothing can.
pub type Lose = Option<Box<dyn Fn() + Send + Sync>>;

/// How long a fault lasts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lasting {
    /// One call fails.
    Once,
    /// All calls fail from one on.
    FromThenOn,
}

/// What came of all runs.
#[derive(Clone, Default, Debug)]
pub struct Table {
    /// Runs with a fault.
    pub runs: u64,
    /// Faults that were injected.
    pub injected: u64,
    /// Errors that scenarios saw.
    pub errors_seen: u64,
    /// By call: how often it was made to fail, by error.
    pub failed: BTreeMap<Call, BTreeMap<String, u64>>,
}

/// Which faults a scenario meets.
#[derive(Clone, Copy, Debug)]
pub struct Walk<'a> {
    /// What a call fails with.
    pub errors: &'a [DeviceError],
    /// How long it fails.
    pub lasting: &'a [Lasting],
    /// Every how many calls one is made to fail; 1 for all.
    pub step: usize,
    /// Whether a call that is made to fail panics instead of returning the error, as a device of the program's own may.
    /// The scenario then runs a second time, without a fault.
    pub unwinds: bool,
    /// How the stage's allocator is set up.
    pub allocator: AllocatorDesc,
}

impl Default for Walk<'_> {
    fn default() -> Self {
        let allocator = AllocatorDesc { device_block_bytes_max: 4 << 20, ..Default::default() };
        Self {
            errors: &Self::ERRORS,
            lasting: &[Lasting::Once, Lasting::FromThenOn],
            step: 1,
            unwinds: false,
            allocator,
        }
    }
}

/// One fault: which call, with what, how long.
type Fault = (u64, DeviceError, Lasting);

impl Walk<'_> {
    /// One of each kind of error.
    pub const ERRORS: [DeviceError; 6] = [
        DeviceError::OutOfHostMemory,
        DeviceError::OutOfDeviceMemory,
        DeviceError::TooManyObjects,
        DeviceError::MapFailed,
        DeviceError::Lost,
        DeviceError::Other(-7),
    ];

    /// Runs every fault of a scenario. Returns how many calls it makes that can fail.
    ///
    /// # Panics
    /// Something is wrong after a fault; the text names it.
    pub fn scenario<G: Gpu>(
        &self,
        name: &str,
        open: &dyn Fn() -> (G, Lose),
        scenario: Scenario<'_, G>,
        table: &mut Table,
    ) -> u64 {
        let only = std::env::var("RINGFENCE_FAULT").ok();
        let only = only.as_deref().and_then(|only| only.rsplit_once(','));
        if only.is_some_and(|(wanted, _)| wanted != name) {
            return 0;
        }
        let calls = self.calm(open().0, scenario);
        assert!(calls > 0, "{name} calls the driver");
        for nth in (0..calls).step_by(self.step) {
            if only.is_some_and(|(_, wanted)| wanted != nth.to_string()) {
                continue;
            }
            for &error in self.errors {
                for &lasting in self.lasting {
                    let (gpu, lose) = open();
                    let fault = (nth, error, lasting);
                    let run = AssertUnwindSafe(|| self.faulty(name, gpu, lose, scenario, fault, table));
                    let ended = catch_unwind(run);
                    assert!(ended.is_ok(), "scenario '{name}', call {nth} of {calls}, {error:?}, {lasting:?}");
                }
            }
        }
        calls
    }

    /// A run without a fault. Returns how many calls could have failed.
    fn calm<G: Gpu>(&self, gpu: G, scenario: Scenario<'_, G>) -> u64 {
        let mut stage = Stage::new(gpu, self.allocator, None);
        let before = stage.faults.calls();
        scenario(&mut stage).expect("nothing fails without a fault");
        let calls = stage.faults.calls() - before;
        assert_eq!(stage.finish(), Vec::<String>::new(), "hazards, messages or leaks");
        calls
    }

    fn faulty<G: Gpu>(
        &self,
        name: &str,
        gpu: G,
        lose: Lose,
        scenario: Scenario<'_, G>,
        (nth, error, lasting): Fault,
        table: &mut Table,
    ) {
        let mut stage = Stage::new(gpu, self.allocator, Some(error));
        if let Some(lose) = lose.filter(|_| error == DeviceError::Lost) {
            stage.faults.set_hook(Some(Box::new(move |_, _| lose())));
        }
        if self.unwinds {
            stage.faults.set_hook(Some(Box::new(|_, error| resume_unwind(Box::new(stage::Unwound(error))))));
        }
        let count = if lasting == Lasting::Once { 1 } else { u64::MAX };
        stage.faults.add(Rule { count, ..Rule::nth(nth, error) });
        let outcome = stage::caught(|| scenario(&mut stage), |error| Failure(error.to_string()));
        stage.memory.debug().validate().expect("sound after the fault");
        let injected = stage.faults.injected();
        // How often the progress of a real device is read is a matter of luck.
        assert!(injected > 0 || G::NAME != SimGpu::NAME, "the call is made again");
        stage.faults.clear();
        // What unwinds through a scenario ends it early, even if the fault was one call's.
        let ends = if self.unwinds { Lasting::FromThenOn } else { lasting };
        afterwards(&mut stage, outcome, scenario, error, ends);
        stage.check_texts(error);
        table.add(&stage, injected, error);
        // No caller is left at the end of an allocator's life to report to that the driver will not wait: what work may
        // still use is leaked then. That is the one leak there is.
        let waits = stage.faults.failed(Call::Wait);
        let may_leak = name.starts_with("teardown") && lasting == Lasting::FromThenOn && waits >= 3;
        let mut found = stage.finish();
        found.retain(|text| !(may_leak && text.starts_with("left over")));
        assert_eq!(found, Vec::<String>::new(), "hazards, messages or leaks");
    }
}

/// The fault is over: what must go well now.
fn afterwards<G: Gpu>(
    stage: &mut Stage<G>,
    outcome: Outcome,
    scenario: Scenario<'_, G>,
    error: DeviceError,
    lasting: Lasting,
) {
    match (lasting, error == DeviceError::Lost) {
        (_, true) => {
            drop(outcome);
            // Whatever is called on a lost device ends, and well.
            (0..2).for_each(|_| _ = stage.memory.reclaim());
            drop(scenario(stage));
        }
        (Lasting::Once, false) => outcome.expect("what fails once succeeds the next time"),
        (Lasting::FromThenOn, false) => {
            // A shader-visible heap lives until its frames are complete, and there is one a kind.
            stage.gpu.wait_idle().expect("the device itself is well");
            // The scenario ended early, and its frame with it: nothing of it was submitted.
            stage.timelines.iter().for_each(Timeline::discard_dropped);
            (0..2).for_each(|_| _ = stage.memory.reclaim());
            scenario(stage).expect("the fault is over, and work goes on");
        }
    }
}

impl Table {
    fn add<G: Gpu>(&mut self, stage: &Stage<G>, injected: u64, error: DeviceError) {
        for call in Call::ALL {
            let failed = stage.faults.failed(call);
            *self.failed.entry(call).or_default().entry(error.to_string()).or_default() += failed;
        }
        self.runs += 1;
        self.injected += injected;
        self.errors_seen += stage.errors_seen();
    }

    /// Prints how often each call failed.
    pub fn print(&self) {
        println!("{} runs; calls that were made to fail:", self.runs);
        for (call, errors) in &self.failed {
            let total: u64 = errors.values().sum();
            println!("  {:<22} {total:>8}", call.function());
        }
    }

    /// Checks that each function of the contract failed with each of these errors. Checks nothing while
    /// `RINGFENCE_FAULT` picks one fault.
    ///
    /// # Panics
    /// One did not.
    pub fn check(&self, errors: &[DeviceError]) {
        if std::env::var_os("RINGFENCE_FAULT").is_some() {
            return;
        }
        for call in Call::ALL {
            let failed = self.failed.get(&call);
            let count = |error: &DeviceError| failed.and_then(|failed| failed.get(&error.to_string())).copied();
            let missing = errors.iter().find(|error| count(error).unwrap_or(0) == 0);
            assert_eq!(missing, None, "{} never failed with this", call.function());
        }
    }
}
