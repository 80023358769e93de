//! The result of a run.

use std::time::Duration;

use ringfence::memory::{Snapshot, Statistics};
use ringfence::upload::{BatchFigures, ConstantFigures};
use ringfence_report::FrameSample;

use super::checks::Findings;
use super::targets::TargetTotals;

/// The result of a run of the demo.
pub struct Outcome {
    pub device: String,
    pub frames: u64,
    pub seed: u64,
    /// Snapshot of the last frame, before all objects were dropped.
    pub snapshot: Snapshot,
    pub statistics: Statistics,
    pub samples: Vec<FrameSample>,
    pub findings: Findings,
    /// `true` if the device drew the pictures, `false` if the host drew them and the device copied them.
    pub drawn_by_device: bool,
    pub things: u64,
    /// Sums of the figures of all batches.
    pub batches: BatchFigures,
    pub constants: ConstantFigures,
    /// Number of constants for single draws.
    pub fast_count: u64,
    pub targets: TargetTotals,
    /// Messages of the hazard finder or of the validation layers.
    pub messages: Vec<String>,
    /// Number of retired objects and of ranges in use after the shutdown. If it is not 0, there is a leak.
    pub left: u64,
    pub elapsed: Duration,
    pub simulated: bool,
}

impl Outcome {
    pub fn is_right(&self) -> bool {
        self.findings.wrong_bytes == 0 && self.messages.is_empty() && self.left == 0
    }
}
