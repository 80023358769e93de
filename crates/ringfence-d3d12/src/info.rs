//! The description of buffers and textures.

use ringfence_hal::ClearValue;
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;

/// The description of a buffer or a texture.
#[derive(Clone, Copy)]
pub struct ResourceInfo {
    /// The driver's description. If its alignment is 0, the library takes the smallest alignment that the driver
    /// allows; for a buffer it takes at least 256, which every kind of view of the buffer accepts.
    ///
    /// Any other alignment of a buffer is a minimum, as for runtimes with tight alignment. 16 is enough for a
    /// buffer without constant-buffer views.
    pub desc: D3D12_RESOURCE_DESC,
    /// The first state of a texture. Buffers and textures for simultaneous access ignore it, as in the API, and start
    /// in the common state. Exception: a buffer with `RAYTRACING_ACCELERATION_STRUCTURE` keeps that state. In upload
    /// and readback heaps a buffer has the one state of its heap type.
    pub initial_state: D3D12_RESOURCE_STATES,
    /// The optimized clear value: a colour or depth, and the typed format of the clear. Only for render targets and
    /// depth-stencils. This is not a `D3D12_CLEAR_VALUE`, because nothing marks the active member of that type's union.
    pub clear_value: Option<(DXGI_FORMAT, ClearValue)>,
    /// `true` if the program guarantees that all subresources of the texture are in `initial_state` again when the work
    /// that uses it is complete. The texture can then be recycled for the next request with the same description and
    /// state, which treats it like a new texture. If the program breaks this guarantee, the next owner's first barrier
    /// names a wrong state, which the debug layer reports.
    ///
    /// Has no effect on buffers and on textures for simultaneous access, because they return to their state by
    /// themselves.
    pub returns_to_initial_state: bool,
    /// `true` if the resource gets its own memory, which the system fills with zeros. Zeroing takes time.
    ///
    /// If `false`, memory is created with `CREATE_NOT_ZEROED` if the runtime knows that flag, and its first contents
    /// are undefined. A render target or depth buffer must then be initialised before any other use: by a clear, by
    /// `DiscardResource`, or by a copy to a whole subresource. If `true`, this is not necessary. A zeroed resource is
    /// committed and never recycled. It cannot be placed, shared or sparse.
    pub zeroed: bool,
    /// `true` if the layers of a two-dimensional texture are the faces of cubes, so that portable views show cubes. The
    /// API's own description cannot express this; the conversion of a portable description of a cube sets it.
    pub is_cube: bool,
}

impl From<D3D12_RESOURCE_DESC> for ResourceInfo {
    /// Returns a description in the common state, without a clear value, not zeroed, not a cube, and without the
    /// guarantee to return to its first state.
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
