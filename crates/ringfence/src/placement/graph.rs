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

use super::desc::{BufferRequest, Dynamism};
use super::location::{BufferLocation, TextureLocation};
use super::policy::Placement;
use crate::device::{Buffers, Create, Device, TextureDesc, Textures};
use crate::transient::{Execution, Pass, TransientBuffer, TransientError, TransientTexture};

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

impl<D: Device> Placement<D> {
    /// A buffer of the graph's transient allocator where one is given, else of the policy. A dynamic one is an upload in
    /// either case.
    ///
    /// # Errors
    /// As [`Execution::acquire_buffer`] or [`Placement::create_buffer`]. Nothing has changed then.
    pub fn provide_buffer(
        &self,
        request: &BufferRequest<'_>,
        graph: Option<GraphPass<'_, '_, D>>,
    ) -> Result<ProvidedBuffer<D>, TransientError> {
        match graph {
            Some(GraphPass { execution, pass }) if request.dynamism == Dynamism::Static => {
                let info = Create::<Buffers>::describe(execution.device(), &request.desc())?;
                execution.acquire_buffer(&info, pass, request.name).map(Provided::Transient)
            }
            _ => Ok(Provided::Placed(self.create_buffer(request)?)),
        }
    }

    /// A texture of the graph's transient allocator where one is given, else of the policy.
    ///
    /// # Errors
    /// As [`Execution::acquire_texture`] or [`Placement::create_texture`]. Nothing has changed then.
    pub fn provide_texture(
        &self,
        desc: &TextureDesc,
        name: &str,
        graph: Option<GraphPass<'_, '_, D>>,
    ) -> Result<ProvidedTexture<D>, TransientError> {
        match graph {
            Some(GraphPass { execution, pass }) => {
                let info = Create::<Textures>::describe(execution.device(), desc)?;
                execution.acquire_texture(&info, pass, name).map(Provided::Transient)
            }
            None => Ok(Provided::Placed(self.create_texture(desc, name)?)),
        }
    }
}

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
