//! The result of a run.

use std::time::Duration;

use ringfence::memory::{Snapshot, Statistics};
use ringfence::upload::{BatchFigures, ConstantFigures};
use ringfence_report::FrameSample;

use super::checks::Findings;
use super::targets::TargetTotals;

/// See the [module](self).
pub struct Outcome {
    pub device: String,
    pub frames: u64,
    pub seed: u64,
    /// The state in the last frame, before everything was dropped.
    pub snapshot: Snapshot,
    pub statistics: Statistics,
    pub samples: Vec<FrameSample>,
    pub findings: Findings,
    /// Whether the device drew the pictures, or they were drawn by the host and passed through the device.
    pub drawn_by_device: bool,
    pub things: u64,
    /// Copies that were gathered, and what was spared.
    pub batches: BatchFigures,
    pub constants: ConstantFigures,
    /// Constants of single draws.
    pub fast_count: u64,
    pub targets: TargetTotals,
    /// What the hazard finder or the validation layers said.
    pub messages: Vec<String>,
    /// Objects that were still waiting after the end: a leak.
    pub left: u64,
    pub elapsed: Duration,
    pub simulated: bool,
}

impl Outcome {
    pub fn is_right(&self) -> bool {
        self.findings.wrong_bytes == 0 && self.messages.is_empty() && self.left == 0
    }
}
