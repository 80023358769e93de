//! What the simulated device hands out: plain numbers, never given twice by one device, and what a message calls them.

use std::fmt;
use std::sync::Arc;

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
            pub struct $name(pub(super) u64);

            impl $name {
                /// The number: never given twice by one device.
                #[must_use]
                pub const fn id(self) -> u64 {
                    self.0
                }
            }
        )*
    };
}

ids! {
    /// A simulated memory object. A copy names the same object.
    Memory;
    /// A simulated buffer. A copy names the same object.
    Buffer;
    /// A simulated texture. A copy names the same object.
    Texture;
    /// A simulated fence (timeline semaphore). A copy names the same object.
    Fence;
    /// A simulated descriptor heap. A copy names the same object.
    DescriptorHeap;
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "fence #{}", self.0)
    }
}

/// What kind of object a [`Label`] names.
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

/// An object as messages call it: `buffer 'vertices'`, or `buffer #7` if it has no name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Label {
    /// What it is.
    pub what: What,
    /// Its number.
    pub id: u64,
    /// The name that its owner gave it.
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
