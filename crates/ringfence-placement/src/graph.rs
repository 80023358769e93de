//! The choice between a graph's transient allocator and the policy's own pools.
//!
//! ```text
//!   texture ┬ a pass of a graph is given ── its transient allocator
//!           └ none ─────────────────────── the policy: [`Placement::create_texture`]
//!   buffer ─┬ dynamic ──────────────────── the policy: upload memory
//!           └ else ────────────────────── as a texture
//! ```
//!
//! This lets the same code create resources inside and outside of a graph.

use super::location::{BufferLocation, TextureLocation};
use ringfence_transient::{TransientBuffer, TransientTexture};

/// A resource from the policy or from a graph's transient allocator.
#[derive(Debug)]
pub enum Provided<P, T> {
    /// Created by the policy: lives until it is dropped.
    Placed(P),
    /// Created by the graph's transient allocator: a handle that is valid until the next execution begins.
    Transient(T),
}

/// A buffer from the policy or from a graph.
pub type ProvidedBuffer<D> = Provided<BufferLocation<D>, TransientBuffer>;
/// A texture from the policy or from a graph.
pub type ProvidedTexture<D> = Provided<TextureLocation<D>, TransientTexture>;

impl<P, T> Provided<P, T> {
    /// Returns the location from the policy. Returns `None` if a transient allocator created the resource.
    #[must_use]
    pub fn placed(self) -> Option<P> {
        match self {
            Self::Placed(placed) => Some(placed),
            Self::Transient(_) => None,
        }
    }

    /// Returns the handle from a transient allocator. Returns `None` if the policy created the resource.
    #[must_use]
    pub fn transient(self) -> Option<T> {
        match self {
            Self::Transient(handle) => Some(handle),
            Self::Placed(_) => None,
        }
    }
}
