//! The choice between a graph's transient allocator and the policy's own pools.
//!
//! ```text
//!   texture ┬ a pass of a graph is given ── its transient allocator
//!           └ none ─────────────────────── the policy: [`Placement::create_texture`]
//!   buffer ─┬ dynamic ──────────────────── the upload heap, whatever is given
//!           └ else ────────────────────── as a texture
//! ```
//!
//! One call serves code that is used within a graph and outside of one.

use super::location::{BufferLocation, TextureLocation};
use crate::transient::{TransientBuffer, TransientTexture};

/// What was made, and by which of the two.
#[derive(Debug)]
pub enum Provided<P, T> {
    /// Made by the policy: it lives until it is dropped.
    Placed(P),
    /// Made by the graph's transient allocator: a handle that is valid as long as the execution.
    Transient(T),
}

/// A buffer of one of the two.
pub type ProvidedBuffer<D> = Provided<BufferLocation<D>, TransientBuffer>;
/// A texture of one of the two.
pub type ProvidedTexture<D> = Provided<TextureLocation<D>, TransientTexture>;

impl<P, T> Provided<P, T> {
    /// The location that the policy made; `None` if a transient allocator made the resource.
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
