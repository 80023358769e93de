//! The switch between a graph's transient allocator and the policy's own pools.
//!
//! ```text
//!   texture ┬ a pass of a graph is given ── its transient allocator
//!           └ none ─────────────────────── the policy: [`Placement::create_texture`]
//!   buffer ─┬ dynamic ──────────────────── the upload heap, whatever is given
//!           └ else ────────────────────── as a texture
//! ```
//!
//! One call serves code that is used within a graph and outside of one.

use std::fmt;

use super::location::{BufferLocation, TextureLocation};
use crate::device::Device;
use crate::transient::{Execution, Pass, TransientBuffer, TransientTexture};

/// A pass of a graph that is being executed: what is made for it comes from the graph's transient allocator.
pub struct GraphPass<'a, 'e, D: Device> {
    /// The execution.
    pub execution: &'a mut Execution<'e, D>,
    /// The pass that uses the resource first.
    pub pass: Pass,
}

/// What was made, and by which of the two.
#[derive(Debug)]
pub enum Provided<P, T> {
    /// The policy made it: it lives until it is dropped.
    Placed(P),
    /// The graph's transient allocator gave it: a handle, for as long as the execution lasts.
    Transient(T),
}

/// A buffer of one of the two.
pub type ProvidedBuffer<D> = Provided<BufferLocation<D>, TransientBuffer>;
/// A texture of one of the two.
pub type ProvidedTexture<D> = Provided<TextureLocation<D>, TransientTexture>;

impl<P, T> Provided<P, T> {
    /// What the policy made; `None` if a transient allocator gave it.
    #[must_use]
    pub fn placed(self) -> Option<P> {
        match self {
            Self::Placed(placed) => Some(placed),
            Self::Transient(_) => None,
        }
    }

    /// The handle of a transient allocator; `None` if the policy made it.
    #[must_use]
    pub fn transient(self) -> Option<T> {
        match self {
            Self::Transient(handle) => Some(handle),
            Self::Placed(_) => None,
        }
    }
}

impl<D: Device> fmt::Debug for GraphPass<'_, '_, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GraphPass({:?})", self.pass)
    }
}
