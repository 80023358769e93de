//! What is to be planned: buffers with a size, an alignment and a lifetime.
//!
//! ```text
//!   lower        upper
//!     ├────────────┤          alive at lower, no more at upper: an item that begins at `upper`
//!                  ├──────┤   may lie on the same bytes
//! ```
//!
//! Checking n items costs O(n).

use super::shape::RELATION_BYTES_MAX;
use core::fmt;

/// When an item's bytes are its own: from `lower` on, no longer at `upper`. Any unit of time (passes, instructions).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Lifetime {
    /// The first moment.
    pub lower: u64,
    /// The first moment after.
    pub upper: u64,
}

impl Lifetime {
    /// Whether both are alive at some moment.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.lower < other.upper && other.lower < self.upper
    }
}

/// What kinds of resource an old heap keeps apart (Direct3D 12, resource heap tier 1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub enum ItemClass {
    /// A buffer.
    #[default]
    Buffer,
    /// A texture that is neither a render target nor a depth buffer.
    Texture,
    /// A render target or a depth buffer.
    RenderTarget,
}

/// One buffer or texture whose offset is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Item {
    /// In units (bytes, for memory); at least 1.
    pub size: u64,
    /// The offset is to be a multiple of it; a power of two.
    pub alignment: u64,
    /// When its bytes are its own.
    pub lifetime: Lifetime,
    /// Which heaps may hold it; read by [`class_costs`](super::class_costs) alone.
    pub class: ItemClass,
}

impl Item {
    /// A buffer of `size` units, alive from `lower` until before `upper`, at any offset.
    #[must_use]
    pub const fn new(size: u64, lower: u64, upper: u64) -> Self {
        Self { size, alignment: 1, lifetime: Lifetime { lower, upper }, class: ItemClass::Buffer }
    }

    /// The same at multiples of `alignment` only.
    #[must_use]
    pub const fn aligned(self, alignment: u64) -> Self {
        Self { alignment, ..self }
    }
}

/// Why a set of items cannot be planned. `index` is the item's place in the slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ItemError {
    /// A size of 0.
    ZeroSize {
        /// Which item.
        index: usize,
    },
    /// The lifetime ends before or where it begins.
    EmptyLifetime {
        /// Which item.
        index: usize,
        /// What was given.
        lifetime: Lifetime,
    },
    /// The alignment is 0 or not a power of two.
    BadAlignment {
        /// Which item.
        index: usize,
        /// What was given.
        alignment: u64,
    },
    /// All items one upon the other would not fit 63 bits.
    Overflow {
        /// The item at which the sum was too large.
        index: usize,
    },
    /// More items than 32 bits number.
    TooMany {
        /// How many.
        count: usize,
    },
    /// The table of which items clash would need too much host memory: of items that passes on several queues use, or
    /// that are alive several times.
    RelationTooLarge {
        /// How many items.
        count: usize,
        /// Bytes that the table needs, at least.
        bytes: u64,
        /// Bytes that it may have.
        bytes_max: u64,
    },
    /// A pass that the order does not have.
    UnknownPass {
        /// Which item.
        index: usize,
        /// The pass that was named.
        pass: usize,
    },
    /// No pass uses the item.
    Unused {
        /// Which item.
        index: usize,
    },
}

impl fmt::Display for ItemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::ZeroSize { index } => write!(f, "item {index} has size 0"),
            Self::EmptyLifetime { index, lifetime: Lifetime { lower, upper } } => {
                write!(f, "item {index} lives from {lower} to {upper}: upper must be above lower")
            }
            Self::BadAlignment { index, alignment } => {
                write!(f, "item {index} has alignment {alignment}, which is not a power of two")
            }
            Self::Overflow { index } => write!(f, "the sizes up to item {index} add up to more than 63 bits hold"),
            Self::TooMany { count } => write!(f, "{count} items are more than 32 bits number"),
            Self::RelationTooLarge { count, bytes, bytes_max } => write!(
                f,
                "which of {count} items clash needs a table of {bytes} bytes, of at most {bytes_max}: plan fewer items, \
                 or items with one lifetime each"
            ),
            Self::UnknownPass { index, pass } => write!(f, "item {index} names pass {pass}, which does not exist"),
            Self::Unused { index } => write!(f, "item {index} is used by no pass"),
        }
    }
}

impl core::error::Error for ItemError {}

/// The largest sum of sizes and paddings: half of what 64 bits hold, so that no sum of two offsets can overflow.
pub(super) const SUM_MAX: u64 = i64::MAX as u64;

/// Refuses a relation of `count` items that needs more than [`RELATION_BYTES_MAX`].
pub(super) fn check_relation(count: usize, bytes: u64) -> Result<(), ItemError> {
    let bytes_max = RELATION_BYTES_MAX;
    if bytes > bytes_max { Err(ItemError::RelationTooLarge { count, bytes, bytes_max }) } else { Ok(()) }
}

/// Checks what does not concern lifetimes. O(n).
pub(super) fn check_sizes(items: impl ExactSizeIterator<Item = (u64, u64)>) -> Result<(), ItemError> {
    let count = items.len();
    if u32::try_from(count).is_err() {
        return Err(ItemError::TooMany { count });
    }
    let mut sum = 0_u64;
    for (index, (size, alignment)) in items.enumerate() {
        if size == 0 {
            return Err(ItemError::ZeroSize { index });
        }
        if !alignment.is_power_of_two() {
            return Err(ItemError::BadAlignment { index, alignment });
        }
        // Padding in front of an item is shorter than its alignment.
        let grown = sum.checked_add(size).and_then(|sum| sum.checked_add(alignment));
        sum = grown.filter(|&sum| sum <= SUM_MAX).ok_or(ItemError::Overflow { index })?;
    }
    Ok(())
}

/// Checks the lifetimes. O(n).
pub(super) fn check_lifetimes(items: &[Item]) -> Result<(), ItemError> {
    let bad = |item: &Item| item.lifetime.upper <= item.lifetime.lower;
    match items.iter().position(bad) {
        Some(index) => Err(ItemError::EmptyLifetime { index, lifetime: items[index].lifetime }),
        None => Ok(()),
    }
}
