//! The fault walker. It runs a scenario once to count its driver calls, then once per call, with that call failing.
//!
//! ```text
//!   for each k ── for each error
//!        the k-th call fails          ▶ typed error ▶ validate ▶ the same call again ▶ the scenario ends well, bytes right
//!        all calls from k on fail     ▶ typed error ▶ validate ▶ the fault ends      ▶ the scenario, again, ends well
//!        the device is lost at call k ▶ typed error ▶ validate ▶ all is destroyed    ▶ no wait hangs
//!   and then: nothing left on the device, nothing released twice (the hazard finder, the validation layers)
//! ```
//!
//! A scenario is a function over a [`Stage`]. Its fallible calls go through [`Stage::step`] or a [`Trial`], which
//! repeat a failed call. [`Walk::scenario`] runs a scenario on any [`Gpu`]. A failure names the scenario, the call and
//! the error; `RINGFENCE_FAULT='scenario,k'` runs only the faults at call `k` of that scenario.
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
pub use stage::{Failure, FaultyBuffer, FaultyDevice, Outcome, Stage, Trial, copy, pattern};

/// The function of a scenario.
pub type Scenario<'a, G> = &'a dyn Fn(&mut Stage<G>) -> Outcome;

/// Loses the real device when a call reports a loss; `None` if the device cannot be lost on request.
pub type Lose = Option<Box<dyn Fn() + Send + Sync>>;

/// Duration of a fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lasting {
    /// One call fails.
    Once,
    /// One call and all later calls fail.
    FromThenOn,
}

/// The results of all runs.
#[derive(Clone, Default, Debug)]
pub struct Table {
    /// Number of runs with a fault.
    pub runs: u64,
    /// Number of injected faults.
    pub injected: u64,
    /// Number of errors that scenarios got.
    pub errors_seen: u64,
    /// Number of injected failures, by failing call and by error.
    pub failed: BTreeMap<Call, BTreeMap<String, u64>>,
}

/// The faults with which a scenario is run.
#[derive(Clone, Copy, Debug)]
pub struct Walk<'a> {
    /// The errors with which a call fails.
    pub errors: &'a [DeviceError],
    /// For how long the call fails.
    pub lasting: &'a [Lasting],
    /// Distance between the calls that are tested. With 1, there are runs for every call of the scenario; with n, for
    /// every n-th call.
    pub step: usize,
    /// If `true`, a failing call panics instead of returning the error, as a custom device might. The scenario is then
    /// run again without a fault.
    pub unwinds: bool,
    /// Description of the stage's allocator.
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

/// A fault: the index of the call, the error, and how long it lasts.
type Fault = (u64, DeviceError, Lasting);

impl Walk<'_> {
    /// One error of each kind that a device can return.
    pub const ERRORS: [DeviceError; 6] = [
        DeviceError::OutOfHostMemory,
        DeviceError::OutOfDeviceMemory,
        DeviceError::TooManyObjects,
        DeviceError::MapFailed,
        DeviceError::Lost,
        DeviceError::Other(-7),
    ];

    /// Runs a scenario once for each of its faults. Returns the number of its calls that can fail.
    ///
    /// # Panics
    /// If a check fails after a fault. The message names the fault.
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
        let calls = self.run_without_fault(open().0, scenario);
        assert!(calls > 0, "scenario '{name}' makes no driver call that can fail");
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

    /// Runs a scenario without a fault. Returns the number of its calls that can fail.
    fn run_without_fault<G: Gpu>(&self, gpu: G, scenario: Scenario<'_, G>) -> u64 {
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
        // On a real device, the number of queries of a fence depends on timing.
        assert!(injected > 0 || G::NAME != SimGpu::NAME, "the scenario made fewer driver calls than without a fault");
        stage.faults.clear();
        // A panic ends the scenario early, even if the fault affects only one call.
        let ends = if self.unwinds { Lasting::FromThenOn } else { lasting };
        afterwards(&mut stage, outcome, scenario, error, ends);
        stage.check_texts(error);
        table.add(&stage, injected, error);
        // When an allocator is dropped, it cannot report that a wait failed. It then leaks the objects that work may
        // still use. No other leak is permitted.
        let waits = stage.faults.failed(Call::Wait);
        let may_leak = name.starts_with("teardown") && lasting == Lasting::FromThenOn && waits >= 3;
        let mut found = stage.finish();
        found.retain(|text| !(may_leak && text.starts_with("left over")));
        assert_eq!(found, Vec::<String>::new(), "hazards, messages or leaks");
    }
}

/// After the fault, checks the outcome of the scenario, or runs the scenario again.
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
            // On a lost device, every call must return.
            (0..2).for_each(|_| _ = stage.memory.reclaim());
            drop(scenario(stage));
        }
        (Lasting::Once, false) => outcome.expect("the scenario succeeds after a single fault"),
        (Lasting::FromThenOn, false) => {
            // A shader-visible heap exists until its frames are complete, and only one of each kind is allowed.
            stage.gpu.wait_idle().expect("the device itself works");
            // The scenario ended early and dropped its frame. The work of the frame was not submitted.
            stage.timelines.iter().for_each(Timeline::discard_dropped);
            (0..2).for_each(|_| _ = stage.memory.reclaim());
            scenario(stage).expect("the scenario succeeds once the fault is over");
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
        println!("{} runs; injected failures by call:", self.runs);
        for (call, errors) in &self.failed {
            let total: u64 = errors.values().sum();
            println!("  {:<22} {total:>8}", call.function());
        }
    }

    /// Checks that each kind of driver call failed with each of these errors. Does nothing if `RINGFENCE_FAULT` selects
    /// one fault.
    ///
    /// # Panics
    /// If a kind of call did not fail with one of the errors.
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
