//! Seeded worlds: random programs on the simulated device, under its hazard finder. A seed is a world; the same seed is
//! the same world, to the byte, as long as one thread runs it.
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
//! *Fault model.* The program is correct: it orders its queues by what its work reads and writes, and host access
//! waits. What goes wrong then is the library's (or the finder's). With a [`Bug`] the program does one thing wrong on
//! purpose, which shows that such a thing is found. Drivers that fail are the business of the fault tests, not of
//! worlds; memory that runs short and a device that is lost belong to both.
//!
//! Found or not, a world can be written as a trace ([`run`]'s second argument), which `ringfence replay` and
//! `ringfence report` read. `ringfence world --seed N` runs one again.

mod dice;
mod outcome;
mod program;
mod thing;
mod threads;

use std::any::Any;
use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Which world, and for how long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorldOptions {
    /// Everything else that is random follows from it.
    pub seed: u64,
    /// What the program does, in steps.
    pub steps: u32,
    /// How many threads work at once, each with a queue of its own; with more than one, how they meet is a matter of
    /// luck.
    pub threads: usize,
    /// What the program does wrong on purpose.
    pub bug: Option<Bug>,
}

impl Default for WorldOptions {
    fn default() -> Self {
        Self { seed: 0, steps: 150, threads: 1, bug: None }
    }
}

/// What a program may do wrong on purpose, to see whether it is found.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Bug {
    /// The library is given fences that run ahead of the work: it reclaims what the device still uses.
    EarlyReclaim,
    /// Some submissions do not wait for the other queue's work that they need.
    MissingWait,
    /// Some copies take other bytes than those that were staged.
    WrongRange,
    /// The host writes without waiting for the work that reads.
    HostWriteTooEarly,
    /// Some submissions use evictable memory that they did not declare.
    MissingCommit,
    /// What is drawn on one canvas is drawn by several queues, which nothing orders.
    SharedCanvas,
    /// When the device is lost, what it had is kept, where all should be released.
    KeptAfterLoss,
}

impl Bug {
    /// Every kind.
    pub const ALL: [Self; 7] = [
        Self::EarlyReclaim,
        Self::MissingWait,
        Self::WrongRange,
        Self::HostWriteTooEarly,
        Self::MissingCommit,
        Self::SharedCanvas,
        Self::KeptAfterLoss,
    ];

    /// What each comes to, of which one is said of a world that finds it.
    #[must_use]
    pub const fn found_by(self) -> &'static [&'static str] {
        match self {
            Self::EarlyReclaim => &["destroyed", "placed", "unmapped", "written", "evicted", "wrong bytes"],
            Self::MissingWait | Self::SharedCanvas => &["nothing orders"],
            Self::WrongRange => &["wrong bytes", "beyond its end", "written by the host"],
            Self::HostWriteTooEarly => &["written by the host", "wrong bytes"],
            Self::MissingCommit => &["evicted"],
            Self::KeptAfterLoss => &["left over"],
        }
    }
}

/// What a world did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Figures {
    /// Steps of the program.
    pub steps: u64,
    /// Submissions to all queues.
    pub submissions: u64,
    /// Resources that were made.
    pub made: u64,
    /// Pictures that were drawn.
    pub drawn: u64,
    /// Bytes that came back from the device and were compared.
    pub checked_bytes: u64,
    /// Requests that were refused for want of memory.
    pub refused: u64,
    /// Resources that were moved to bring memory together.
    pub moved: u64,
    /// Memory objects that were evicted and brought back.
    pub brought_back: u64,
    /// Buffers that were imported.
    pub imported: u64,
    /// Pages of sparse buffers that got memory.
    pub pages: u64,
    /// Whether the device was lost.
    pub lost: bool,
    /// A number made of all that was read back and of how far the device was seen to be: equal for equal worlds.
    pub digest: u64,
}

impl Figures {
    fn digest(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.digest = (self.digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    /// Adds those of another world.
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

/// What was found, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The world.
    pub seed: u64,
    /// The step at whose end it was found.
    pub step: u64,
    /// What it is.
    pub what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "world {}, step {}: {}", self.seed, self.step, self.what)
    }
}

impl std::error::Error for Finding {}

/// Runs a world, from its beginning to the end of everything in it. A panic in it is a finding too.
///
/// # Errors
/// The first thing that is wrong.
pub fn run(options: &WorldOptions, trace: Option<Box<dyn Write + Send>>) -> Result<Figures, Finding> {
    let world = || if options.threads > 1 { threads::run(options) } else { program::run(options, trace) };
    catch_unwind(AssertUnwindSafe(world)).unwrap_or_else(|panic| {
        let what = format!("a panic: {}", text_of(&*panic));
        Err(Finding { seed: options.seed, step: 0, what })
    })
}

fn text_of(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("without words")
}
