//! Identifiers of the simulated device's objects, and the labels of objects in messages. A device never uses an
//! identifier twice.

use std::fmt;
use std::sync::Arc;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
            pub struct $name(pub(super) u64);

            impl $name {
                /// Returns the number of the object. A device never uses a number twice.
                #[must_use]
                pub const fn id(self) -> u64 {
                    self.0
                }
            }
        )*
    };
}

ids! {
    /// A simulated memory object. A copy refers to the same object.
    Memory;
    /// A simulated buffer. A copy refers to the same object.
    Buffer;
    /// A simulated texture. A copy refers to the same object.
    Texture;
    /// A simulated fence (timeline semaphore). A copy refers to the same object.
    Fence;
    /// A simulated descriptor heap. A copy refers to the same object.
    DescriptorHeap;
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fence #{}", self.0)
    }
}

/// The kind of object that a [`Label`] names.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum What {
    /// A memory object.
    Memory,
    /// A buffer.
    Buffer,
    /// A texture.
    Texture,
    /// A fence.
    Fence,
    /// A descriptor heap.
    DescriptorHeap,
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Memory => "memory",
            Self::Buffer => "buffer",
            Self::Texture => "texture",
            Self::Fence => "fence",
            Self::DescriptorHeap => "descriptor heap",
        })
    }
}

/// The name of an object in messages: `buffer 'vertices'`, or `buffer #7` if it has no name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Label {
    /// The kind of object.
    pub what: What,
    /// The number of the object.
    pub id: u64,
    /// The name that its owner has set.
    pub name: Option<Arc<str>>,
}

impl Label {
    pub(super) const fn unnamed(what: What, id: u64) -> Self {
        Self { what, id, name: None }
    }

    pub(super) fn named(what: What, id: u64, name: &str) -> Self {
        Self { what, id, name: (!name.is_empty()).then(|| name.into()) }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{} '{name}'", self.what),
            None => write!(f, "{} #{}", self.what, self.id),
        }
    }
}
