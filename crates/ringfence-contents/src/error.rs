//! Errors of vectors and mesh arenas.

use ringfence_memory::Error;
use ringfence_upload::{BatchError, UploadError};

/// Error of a [`GpuVec`](crate::GpuVec) or a [`MeshArena`](crate::MeshArena). After a failed update of a vector, the
/// elements keep their values, and the next update continues where this one stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ContentsError {
    /// A buffer could not be created, a mesh is too large, or the timelines could not be read.
    #[error(transparent)]
    Memory(#[from] Error),
    /// The elements could not be staged. If the ring is full, call the update again in the next frame, or create the
    /// ring with a larger capacity.
    #[error(transparent)]
    Upload(#[from] UploadError),
    /// A mesh needs at least one vertex and one index.
    #[error("a mesh of {vertex_count} vertices and {index_count} indices: it needs at least one of each")]
    EmptyMesh {
        /// Number of vertices.
        vertex_count: u32,
        /// Number of indices.
        index_count: u32,
    },
    /// The mesh belongs to another arena.
    #[error("the mesh belongs to another arena")]
    ForeignMesh,
    /// `MeshArena::compact` is moving the mesh, so a copy to its present place would be lost. Copy in a later frame.
    #[error("the mesh is being moved to another block: write to it once its move is complete")]
    Moving,
    /// The batch does not accept the copies, for instance because it belongs to another allocator.
    #[error(transparent)]
    Batch(#[from] BatchError),
}
