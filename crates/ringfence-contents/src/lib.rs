//! Contents of GPU resources: typed buffers, meshes, texture files.
//!
//! [`GpuVec`] is a vector of elements on the device: the program changes it like a `Vec`, and [`GpuVec::update`]
//! uploads the elements that have changed.
//!
//! [`MeshArena`] keeps the vertices and indices of many meshes in few buffers, for few binds and indirect draws.
//! [`MeshArena::compact`] moves meshes out of the emptiest block, so that the block can be freed.
//!
//! [`TextureData`] has the texels of a texture file, for its description and its upload: KTX 2 (feature `ktx2`), DDS
//! (`dds`), and images (`image`).

mod error;
mod mesh_arena;
mod texture_data;
mod vec;

use ringfence_hal as device;

pub use error::ContentsError;
pub use mesh_arena::{Mesh, MeshArena, MeshArenaDesc, MeshArenaFigures, MeshDraw, MeshPart};
pub use texture_data::{ColorEncoding, TextureData, TextureDataError};
pub use vec::{GpuSlice, GpuVec, GpuVecDesc, Updated};

/// The example of the README, compiled as a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
