//! What debugging finds: guards that were written, leaks, and what happened to a range. Each names the resource and the
//! line that made it.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::thread::ThreadId;

/// Something that went wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Finding {
    /// Bytes beside a range were written.
    Overrun(Overrun),
    /// Something was not released by the end.
    Leak(Leak),
    /// Copies to this resource were lost, so that it shows what it held before: they were gathered and never recorded,
    /// or their frame was discarded or dropped.
    LostContent(Leak),
}

/// Which guard of a range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// Before its first byte.
    Before,
    /// After its last byte.
    After,
}

/// A guard that was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overrun {
    /// Whose guard it is.
    pub owner: Leak,
    /// Which of its two.
    pub side: Side,
    /// Bytes between the range and the nearest byte that was overwritten; 0 for the byte next to the range.
    pub distance_bytes: u64,
    /// How many bytes differ.
    pub damaged_bytes: u64,
    /// What the nearest of them is now.
    pub found: u8,
    /// Whether it was found when the range was released, rather than by `Debug::check_guards`.
    pub at_release: bool,
}

/// A range that is alive, by name and place of creation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leak {
    /// Its name; empty for none.
    pub name: Arc<str>,
    /// What its owner gave along.
    pub user_data: u64,
    /// Bytes that its owner has.
    pub size: u64,
    /// Its memory type.
    pub memory_type: u32,
    /// Where it lies.
    pub address: MemoryAddress,
    /// The line that made it: of the program, or of the library for its own resources.
    pub made_at: Option<&'static Location<'static>>,
    /// Whether it is retired: released by its owner, and waiting for submissions that are not complete.
    pub is_retired: bool,
}

/// A place in memory to ask about.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemoryAddress {
    /// A byte of a memory object, by the object's number (the one that traces use).
    Block {
        /// The memory object.
        block: u64,
        /// The byte.
        offset: u64,
    },
    /// The device address of a byte, as a device fault report gives it.
    Device(u64),
    /// The address of a mapped byte.
    Host(usize),
}

/// What happened to a range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OperationKind {
    /// It was made.
    Made,
    /// It was given another name.
    Named,
    /// A defragmentation has given it another place, where it is now.
    Moved {
        /// Where it was, until the device is done with that.
        from: MemoryAddress,
    },
    /// Its owner released it; the device may still use it.
    Retired,
    /// The device is done with it: its bytes may be given to others.
    Released,
}

/// Something that happened to a range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Counts operations from 0.
    pub number: u64,
    /// What happened.
    pub kind: OperationKind,
    /// To what.
    pub subject: Leak,
    /// Where its first byte is in shaders, if it has an address there.
    pub device_address: Option<u64>,
    /// Where the host sees its first byte.
    pub host_address: Option<usize>,
    /// The thread that did it.
    pub thread: ThreadId,
}

impl Operation {
    /// Whether the operation concerns the byte at `address`. A move concerns both places, by the byte of a memory
    /// object.
    #[must_use]
    pub fn concerns(&self, address: MemoryAddress) -> bool {
        let size = self.subject.size;
        let within = |first: u64, at: u64| at.checked_sub(first).is_some_and(|distance| distance < size);
        let is_there = |held: MemoryAddress| match (address, held) {
            (MemoryAddress::Block { block, offset }, MemoryAddress::Block { block: held, offset: first }) => {
                block == held && within(first, offset)
            }
            _ => false,
        };
        if let OperationKind::Moved { from } = self.kind
            && is_there(from)
        {
            return true;
        }
        match (address, self.subject.address) {
            (MemoryAddress::Block { .. }, held) => is_there(held),
            (MemoryAddress::Device(address), _) => self.device_address.is_some_and(|first| within(first, address)),
            (MemoryAddress::Host(address), _) => {
                self.host_address.is_some_and(|first| within(first as u64, address as u64))
            }
        }
    }
}

/// What `Debug::check_guards` saw.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct GuardCheck {
    /// Guards that were overwritten. Each is restored, so that it is reported once.
    pub overruns: Vec<Overrun>,
    /// Live ranges whose guards were compared, overwritten ones included.
    pub checked_count: usize,
    /// Live ranges without guards that the host can see.
    pub unchecked_count: usize,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overrun(overrun) => overrun.fmt(f),
            Self::Leak(leak) => write!(f, "leak: {leak}"),
            Self::LostContent(owner) => write!(f, "lost content: copies to {owner} did not arrive"),
        }
    }
}

impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.side == Side::Before { "before" } else { "after" };
        let when = if self.at_release { "found when it was released" } else { "found by check_guards" };
        let Self { owner, distance_bytes, damaged_bytes, found, .. } = self;
        write!(f, "overrun: {damaged_bytes} bytes {side} {owner} were written, the nearest {distance_bytes} bytes ")?;
        write!(f, "away (it is {found:#04x}), {when}")
    }
}

impl fmt::Display for Leak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, size, memory_type, address, .. } = self;
        let name = if name.is_empty() { "(no name)" } else { name };
        write!(f, "\"{name}\", {size} bytes of memory type {memory_type} at {address}")?;
        if let Some(at) = self.made_at {
            write!(f, ", made at {at}")?;
        }
        if self.is_retired { write!(f, ", released and waiting for the device") } else { Ok(()) }
    }
}

impl fmt::Display for MemoryAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Block { block, offset } => write!(f, "byte {offset} of block {block}"),
            Self::Device(address) => write!(f, "device address {address:#x}"),
            Self::Host(address) => write!(f, "host address {address:#x}"),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deed = match self.kind {
            OperationKind::Made => "made",
            OperationKind::Named => "named",
            OperationKind::Moved { from } => {
                return write!(f, "#{} moved by {:?} from {from}: {}", self.number, self.thread, self.subject);
            }
            OperationKind::Retired => "retired",
            OperationKind::Released => "released",
        };
        // What is released does not wait any more.
        let is_retired = self.subject.is_retired && self.kind != OperationKind::Released;
        let subject = Leak { is_retired, ..self.subject.clone() };
        write!(f, "#{} {deed} by {:?}: {subject}", self.number, self.thread)
    }
}
