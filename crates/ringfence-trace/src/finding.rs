//! Results of debugging: overwritten guards, leaks, and the history of a range. Each result contains the name of the
//! resource and the source line that created it.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::thread::ThreadId;

/// A fault of the program that debugging has found.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Finding {
    /// Bytes next to a range were overwritten.
    Overrun(Overrun),
    /// A resource was still alive at shutdown.
    Leak(Leak),
    /// Copies to this resource were lost, so the resource has its earlier contents. The copies were gathered but never
    /// recorded, or their frame was discarded or dropped.
    LostContent(Leak),
}

/// One of the two guards of a range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Side {
    /// The guard before the first byte of the range.
    Before,
    /// The guard after the last byte of the range.
    After,
}

/// A guard that was overwritten.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Overrun {
    /// The range that the guard belongs to.
    pub owner: Leak,
    /// The guard that was overwritten.
    pub side: Side,
    /// Distance from the range to the nearest overwritten byte, in bytes; 0 for the byte next to the range.
    pub distance_bytes: u64,
    /// Number of overwritten bytes.
    pub damaged_bytes: u64,
    /// Value of the overwritten byte that is nearest to the range.
    pub found: u8,
    /// `true` if the overrun was found when the range was released, `false` if `Debug::check_guards` found it.
    pub at_release: bool,
}

/// Description of a range and its resource: name, size, location, and the line that created it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Leak {
    /// Name of the resource, or empty.
    pub name: Arc<str>,
    /// The `user_data` of the resource's `AllocationDesc`.
    pub user_data: u64,
    /// Size of the resource, in bytes.
    pub size: u64,
    /// Index of the range's memory type.
    pub memory_type: u32,
    /// Location of the range's first byte.
    pub address: MemoryAddress,
    /// Source line that created the resource. For the library's own resources, this is a line of the library.
    pub made_at: Option<&'static Location<'static>>,
    /// `true` if the owner has released the range and incomplete submissions may still use it.
    pub is_retired: bool,
}

/// Address of a byte of GPU memory.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemoryAddress {
    /// A byte of a memory object.
    Block {
        /// Number of the memory object, the same as in traces and snapshots.
        block: u64,
        /// Offset of the byte in the memory object, in bytes.
        offset: u64,
    },
    /// A device address, for example from a report of a device fault.
    Device(u64),
    /// A host address in mapped memory.
    Host(usize),
}

/// Kind of an operation on a range.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum OperationKind {
    /// The range was allocated.
    Made,
    /// The range was renamed.
    Named,
    /// Defragmentation moved the contents of an old range to this range.
    Moved {
        /// Address of the old range, which is freed once the device has finished using it.
        from: MemoryAddress,
    },
    /// The owner released the range. The device may still use it.
    Retired,
    /// The range was freed. Its bytes can be allocated again.
    Released,
}

/// An operation on a range.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Operation {
    /// Number of the operation, counted from 0 for each allocator.
    pub number: u64,
    /// Kind of the operation.
    pub kind: OperationKind,
    /// The range of the operation; for a move, the new range.
    pub subject: Leak,
    /// Device address of the range's first byte; `None` if the resource has no device address.
    pub device_address: Option<u64>,
    /// Host address of the range's first byte; `None` if it is not mapped.
    pub host_address: Option<usize>,
    /// Thread that performed the operation.
    pub thread: ThreadId,
}

impl Operation {
    /// Returns `true` if `address` is a byte of the operation's range. For a move, this is the new range. If `address`
    /// is a [`MemoryAddress::Block`], a byte of the old range counts too.
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

/// Result of `Debug::check_guards`.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct GuardCheck {
    /// The overwritten guards. The check restores each guard, so it reports each overrun once.
    pub overruns: Vec<Overrun>,
    /// Number of live ranges with checked guards, including ranges with overwritten guards.
    pub checked_count: usize,
    /// Number of live ranges that were not checked: they have no guards, or the host cannot read their guards.
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
        // A freed range does not wait for the device.
        let is_retired = self.subject.is_retired && self.kind != OperationKind::Released;
        let subject = Leak { is_retired, ..self.subject.clone() };
        write!(f, "#{} {deed} by {:?}: {subject}", self.number, self.thread)
    }
}
