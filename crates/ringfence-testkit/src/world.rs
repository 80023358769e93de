//! Seeded worlds: random programs on the simulated device, under its hazard finder. Each seed is one world. With one
//! thread, equal seeds produce identical worlds, byte for byte.
//!
//! ```text
//!   seed ─▶ profile, queues, lateness, program
//!             │  create · write · copy · check · drop · resize · draw · texels · transient frames · bindless fills
//!             │  fast constants · abandoned frames · budgets that shrink · evictions · paused queues · a lost device
//!             │  defragment · evict and bring back · export and import · sparse pages · debugging, with an overrun
//!             ▼
//!   library ──▶ sim::Device ─▶ hazards?   bytes read back: right?   validate(): sound?   at the end: nothing left?
//! ```
//!
//! *Fault model.* The program is correct: it orders its queues by the reads and writes of its work, and host accesses
//! wait for the device. Any error is then the library's (or the hazard finder's). With a [`Bug`], the program
//! deliberately does one thing wrong, to prove that such an error is found. Failing drivers are covered by the fault
//! tests, not by worlds. Low memory and a lost device are covered by both.
//!
//! A world can be written as a trace ([`run`]'s second argument), whether it finds an error or not. `ringfence replay`
//! and `ringfence report` read the trace. `ringfence world --seed N` runs a world again.

mod dice;
mod outcome;
mod program;
mod thing;
mod threads;

use std::any::Any;
use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The world to run, and its length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorldOptions {
    /// Seed of all random choices.
    pub seed: u64,
    /// Number of the program's steps.
    pub steps: u32,
    /// Number of concurrent threads, each with its own queue. With more than one, their interleaving is not
    /// deterministic.
    pub threads: usize,
    /// The program's deliberate error.
    pub bug: Option<Bug>,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self { seed: 0, steps: 150, threads: 1, bug: None }
    }
}

/// A deliberate error of a program, to check that it is found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bug {
    /// The library gets fences that run ahead of the work, so it reclaims resources that the device still uses.
    EarlyReclaim,
    /// Some submissions do not wait for work of another queue that they depend on.
    MissingWait,
    /// Some copies read other bytes than the staged ones.
    WrongRange,
    /// The host writes without waiting for the work that reads.
    HostWriteTooEarly,
    /// Some submissions use evictable memory without declaring it.
    MissingCommit,
    /// Several queues draw on the same canvas without synchronization.
    SharedCanvas,
    /// When the device is lost, objects are kept that should be released.
    KeptAfterLoss,
}

impl Bug {
    /// All bugs.
    pub const ALL: [Self; 7] = [
        Self::EarlyReclaim,
        Self::MissingWait,
        Self::WrongRange,
        Self::HostWriteTooEarly,
        Self::MissingCommit,
        Self::SharedCanvas,
        Self::KeptAfterLoss,
    ];

    /// Returns the possible texts of a finding of this bug. A finding contains at least one of them.
    #[must_use]
    pub const fn found_by(self) -> &'static [&'static str] {
        match self {
            Self::EarlyReclaim => &["destroyed", "placed", "unmapped", "written", "evicted", "wrong bytes"],
            Self::MissingWait | Self::SharedCanvas => &["no fence orders"],
            Self::WrongRange => &["wrong bytes", "beyond its end", "written by the host"],
            Self::HostWriteTooEarly => &["written by the host", "wrong bytes"],
            Self::MissingCommit => &["evicted"],
            Self::KeptAfterLoss => &["left over"],
        }
    }
}

/// Counters of a world.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Figures {
    /// Steps of the program.
    pub steps: u64,
    /// Submissions to all queues.
    pub submissions: u64,
    /// Resources that were created.
    pub made: u64,
    /// Pictures that were drawn.
    pub drawn: u64,
    /// Bytes that were read back from the device and compared.
    pub checked_bytes: u64,
    /// Requests that failed for lack of memory.
    pub refused: u64,
    /// Resources that defragmentation moved.
    pub moved: u64,
    /// Memory objects that were evicted and made resident again.
    pub brought_back: u64,
    /// Buffers that were imported.
    pub imported: u64,
    /// Pages of sparse buffers that were bound to memory.
    pub pages: u64,
    /// `true` if the device was lost.
    pub lost: bool,
    /// Hash of all bytes that were read back, and of the observed progress of the device. Equal for equal worlds.
    pub digest: u64,
}

impl Figures {
    fn digest(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds the counters of another world.
    pub fn add(&mut self, other: &Self) {
        self.steps += other.steps;
        self.submissions += other.submissions;
        self.made += other.made;
        self.drawn += other.drawn;
        self.checked_bytes += other.checked_bytes;
        self.refused += other.refused;
        self.moved += other.moved;
        self.brought_back += other.brought_back;
        self.imported += other.imported;
        self.pages += other.pages;
        self.lost |= other.lost;
        self.digest ^= other.digest;
    }
}

/// An error that a world found, and its step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Seed of the world.
    pub seed: u64,
    /// The step after which it was found.
    pub step: u64,
    /// Description of the error.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "world {}, step {}: {}", self.seed, self.step, self.what)
    }
}

impl std::error::Error for Finding {}

/// Runs a world until all of its objects are destroyed. A panic counts as a finding.
///
/// # Errors
/// The first error that was found.
pub fn run(options: &WorldOptions, trace: Option<Box<dyn Write + Send>>) -> Result<Figures, Finding> {
    let world = || if options.threads > 1 { threads::run(options) } else { program::run(options, trace) };
    catch_unwind(AssertUnwindSafe(world)).unwrap_or_else(|panic| {
        let what = format!("a panic: {}", text_of(&*panic));
        Err(Finding { seed: options.seed, step: 0, what })
    })
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without a message")
}
