//! What buffers and textures are described with.

use ringfence_hal::ClearValue;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;

/// What a buffer or a texture is described with.
#[derive(Clone, Copy)]
pub struct ResourceInfo {
    /// The driver's description. An alignment of 0 leaves it to the library to take the smallest that the driver
    /// grants; of a buffer, the smallest at which every view of it can begin, which is 256.
    ///
    /// An alignment of a buffer's own is the least that it gets, as runtimes of tight alignment take it: 16 for one
    /// that is never shown as constants.
    pub desc: D3D12_RESOURCE_DESC,
    /// The state that a texture begins in. Of no effect on buffers and on textures for simultaneous access, which begin
    /// in the common state, as the API ignores it; except `RAYTRACING_ACCELERATION_STRUCTURE`, which a buffer keeps. In
    /// upload and readback heaps a buffer has the one state of its heap type.
    pub initial_state: D3D12_RESOURCE_STATES,
    /// The colour or depth that clearing is made fast for, in the typed format that it is cleared in; only for render
    /// targets and depth-stencils. Not `D3D12_CLEAR_VALUE`, whose union does not say what it holds.
    pub clear_value: Option<(DXGI_FORMAT, ClearValue)>,
    /// Whether the program sees to it that a texture is in `initial_state` again, all subresources of it, when the work
    /// that uses it is complete: then it may be recycled for the next request of the same description and state, which
    /// finds it as if it were new. If the program breaks this, the next owner's first barrier names a state that the
    /// texture is not in; the debug layer says so.
    ///
    /// Buffers, and textures for simultaneous access, return to their state by themselves, so that this is of no effect.
    pub returns_to_initial_state: bool,
    /// Whether the resource gets memory of its own that the system fills with zeros, which takes time.
    ///
    /// Without it, memory is made with `CREATE_NOT_ZEROED` where the runtime knows that flag, and holds anything at
    /// first. A render target or a depth buffer then has to be initialised before any other use: by a clear, by
    /// `DiscardResource`, or by a copy to a whole subresource. With it, that is not needed. A zeroed resource is
    /// committed and is never recycled; it cannot be placed, shared or sparse.
    pub zeroed: bool,
    /// Whether the layers of a two-dimensional texture are the faces of cubes, so that portable views show cubes. The API's
    /// own description does not say so; a portable description of a cube sets it.
    pub is_cube: bool,
}

impl From<D3D12_RESOURCE_DESC> for ResourceInfo {
    /// In the common state, without a clear value, not said to return to it, not zeroed, and no cube.
    fn from(desc: D3D12_RESOURCE_DESC) -> Self {
        Self {
            desc,
            initial_state: D3D12_RESOURCE_STATE_COMMON,
            clear_value: None,
            returns_to_initial_state: false,
            zeroed: false,
            is_cube: false,
        }
    }
}
