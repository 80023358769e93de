//! Seeded worlds: random programs on the simulated device, under its hazard finder. Each seed is one world. A world
//! with one thread is deterministic: equal seeds produce equal worlds, byte for byte.
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
//! *Fault model.* The program is correct: it orders its queues by the reads and writes of its work, and it waits for
//! the device before the host accesses memory. An error is therefore the library's (or the hazard finder's). With a
//! [`Bug`], the program deliberately makes one kind of mistake, to prove that such mistakes are found. Failing driver
//! calls are tested by the fault tests, not by worlds; low memory and a lost device by both.
//!
//! A world with one thread can be recorded as a trace ([`run`]'s second argument), which `ringfence replay` and
//! `ringfence report` read. `ringfence world --seed N` runs a world again.

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
    /// Number of steps of the program.
    pub steps: u32,
    /// Number of threads, each with its own queue. Several threads interleave differently in each run.
    pub threads: usize,
    /// Deliberate mistake of the program; `None` for a correct program.
    pub bug: Option<Bug>,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self { seed: 0, steps: 150, threads: 1, bug: None }
    }
}

/// A deliberate mistake of a program, to check that it is found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bug {
    /// The library's fences run ahead of the work, so the library releases resources that the device still uses.
    EarlyReclaim,
    /// Some submissions do not wait for the work of another queue that they depend on.
    MissingWait,
    /// Some copies read other bytes than those that were staged.
    WrongRange,
    /// The host writes to buffers without waiting for the work that reads them.
    HostWriteTooEarly,
    /// Some submissions use evictable memory without declaring it.
    MissingCommit,
    /// Several queues draw on the same canvas without synchronization.
    SharedCanvas,
    /// When the device is lost, some objects are not released.
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

    /// Returns texts. Every finding of this bug contains at least one of them.
    #[must_use]
    pub const fn found_by(self) -> &'static [&'static str] {
        match self {
            Self::EarlyReclaim => &["destroyed", "placed", "unmapped", "written", "evicted", "wrong bytes"],
            // A wait that a thread omits also misses from its own fence, for which it waits before the host writes.
            Self::MissingWait => &["no fence orders", "written by the host"],
            Self::SharedCanvas => &["no fence orders"],
            Self::WrongRange => &["wrong bytes", "beyond its end", "written by the host"],
            Self::HostWriteTooEarly => &["written by the host", "wrong bytes"],
            Self::MissingCommit => &["evicted"],
            Self::KeptAfterLoss => &["left over"],
        }
    }
}

/// Statistics of a world.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Figures {
    /// Number of steps of the program.
    pub steps: u64,
    /// Number of submissions to all queues.
    pub submissions: u64,
    /// Number of resources that were created.
    pub made: u64,
    /// Number of pictures that were drawn.
    pub drawn: u64,
    /// Number of bytes that were read back from the device and compared.
    pub checked_bytes: u64,
    /// Number of requests that failed because memory was short.
    pub refused: u64,
    /// Number of resources that defragmentation moved.
    pub moved: u64,
    /// Number of memory objects that were evicted and made resident again.
    pub brought_back: u64,
    /// Number of buffers that were imported.
    pub imported: u64,
    /// Number of pages of sparse buffers that were bound to memory.
    pub pages: u64,
    /// `true` if the device was lost.
    pub lost: bool,
    /// Hash of all bytes that were read back, and of the observed fence values. Equal worlds have equal hashes.
    pub digest: u64,
}

impl Figures {
    fn digest(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds the statistics of another world.
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

/// An error that a world found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Seed of the world.
    pub seed: u64,
    /// Number of the step after which the error was found; 0 if the step is not known, as for a panic.
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

/// Runs a world and destroys all of its objects. A panic counts as a finding. If the world has one thread, records it
/// in `trace`; a world of several threads is not recorded.
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
