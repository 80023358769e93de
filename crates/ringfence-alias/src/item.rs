//! The items to plan: buffers with a size, an alignment and a lifetime.
//!
//! ```text
//!   lower        upper
//!     ├────────────┤          alive from lower to before upper: an item that begins at `upper`
//!                  ├──────┤   can share its bytes
//! ```
//!
//! Checking n items costs O(n).

use core::fmt;

/// Lifetime of an item: from `lower` to before `upper`, in any unit of time (passes, instructions).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Lifetime {
    /// First moment.
    pub lower: u64,
    /// One past the last moment.
    pub upper: u64,
}

impl Lifetime {
    /// Returns `true` if the two lifetimes have a moment in common.
    #[must_use]
    pub const fn overlaps(self, other: Self) -> bool {
        self.lower < other.upper && other.lower < self.upper
    }
}

/// A buffer or texture to plan.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Item {
    /// Size in units (bytes for memory); at least 1.
    pub size: u64,
    /// Alignment of the offset; a power of two.
    pub alignment: u64,
    /// Time in which no other item may use its bytes.
    pub lifetime: Lifetime,
}

impl Item {
    /// Creates a buffer of `size` units that is alive from `lower` to before `upper`, with alignment 1.
    #[must_use]
    pub const fn new(size: u64, lower: u64, upper: u64) -> Self {
        Self { size, alignment: 1, lifetime: Lifetime { lower, upper } }
    }

    /// Returns the item with another alignment.
    #[must_use]
    pub const fn aligned(self, alignment: u64) -> Self {
        Self { alignment, ..self }
    }
}

/// Reason why a set of items cannot be planned. `index` is the index of the item in the slice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ItemError {
    /// The size is 0.
    ZeroSize {
        /// Index of the item.
        index: usize,
    },
    /// The lifetime is empty: `upper` is not above `lower`.
    EmptyLifetime {
        /// Index of the item.
        index: usize,
        /// Lifetime of the item.
        lifetime: Lifetime,
    },
    /// The alignment is 0 or not a power of two.
    BadAlignment {
        /// Index of the item.
        index: usize,
        /// Alignment of the item.
        alignment: u64,
    },
    /// The sum of all sizes and alignments does not fit 63 bits.
    Overflow {
        /// Index of the item at which the sum became too large.
        index: usize,
    },
    /// The number of items does not fit 32 bits.
    TooMany {
        /// Number of items.
        count: usize,
    },
    /// The table of clashing items (pairs that cannot share bytes) would need too much host memory. Only items that are
    /// used by passes on several queues, or that have several lifetimes, need such a table.
    RelationTooLarge {
        /// Number of items.
        count: usize,
        /// Lower bound of the size of the table, in bytes.
        bytes: u64,
        /// Largest size of the table, in bytes.
        bytes_max: u64,
    },
    /// The item names a pass that does not exist.
    UnknownPass {
        /// Index of the item.
        index: usize,
        /// Index of the pass.
        pass: usize,
    },
    /// No pass uses the item.
    Unused {
        /// Index of the item.
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
            Self::Overflow { index } => write!(f, "the sizes and alignments up to item {index} exceed 2^63 - 1"),
            Self::TooMany { count } => write!(f, "there are {count} items, at most 2^32 - 1 are allowed"),
            Self::RelationTooLarge { count, bytes, bytes_max } => write!(
                f,
                "the table of clashes of {count} items needs {bytes} bytes, of at most {bytes_max}: plan fewer items, \
                 or items with one lifetime each"
            ),
            Self::UnknownPass { index, pass } => write!(f, "item {index} names pass {pass}, which does not exist"),
            Self::Unused { index } => write!(f, "item {index} is used by no pass"),
        }
    }
}

impl core::error::Error for ItemError {}
