//! The description of a buffer or texture.

use super::describe::NativeKind;
use super::device::Device;
use ringfence_hal::{ClearValue, Describe, DeviceError, Format, FormatSet};
use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::DXGI_FORMAT;

/// The description of a buffer or texture.
#[derive(Clone, Copy)]
pub struct ResourceInfo {
    /// The driver's description.
    ///
    /// If its alignment is 0, the library uses the smallest alignment that the driver allows; for buffers at least 256
    /// bytes, which suffices for every kind of view. Any other alignment is a minimum for a buffer, and is used as it
    /// is for a texture. For instance, 16 bytes are enough with tight alignment if the buffer has only raw and
    /// structured views; constant-buffer views and acceleration structures need 256 bytes.
    pub desc: D3D12_RESOURCE_DESC,
    /// The initial state of a texture. Buffers, and textures for simultaneous access, start in the common state and
    /// ignore this field, as in the API. Exception: a buffer with `RAYTRACING_ACCELERATION_STRUCTURE` is permanently in
    /// that state. In upload and readback heaps, a buffer is permanently in the state of its heap type.
    pub initial_state: D3D12_RESOURCE_STATES,
    /// The optimized clear value: a colour or a depth, and the typed format of the clear. Only for render targets and
    /// depth-stencils. The type is not `D3D12_CLEAR_VALUE`, because that type does not say which member of its union is
    /// active.
    pub clear_value: Option<(DXGI_FORMAT, ClearValue)>,
    /// `true` if the program guarantees that all subresources of the texture are in `initial_state` again when the work
    /// that uses the texture is complete. The texture can then be recycled for a later request with the same
    /// description and state. If the program breaks the guarantee, the first barrier of the next owner names a wrong
    /// state, which the debug layer reports.
    ///
    /// Has no effect on buffers and on textures for simultaneous access, because their state returns to the common
    /// state automatically.
    pub returns_to_initial_state: bool,
    /// `true` if the resource is committed, and the system fills its memory with zeros. Zeroing takes time. A zeroed
    /// resource is never recycled. It cannot be placed, shared or sparse.
    ///
    /// If `false`, the first contents are undefined (the memory is created with `CREATE_NOT_ZEROED` if the runtime
    /// knows that flag). A render target or depth buffer must then be initialised before any other use: by a clear, by
    /// `DiscardResource`, or by a copy to a whole subresource.
    pub zeroed: bool,
    /// `true` if the layers of a two-dimensional texture are the faces of cubes. Portable views of the texture are then
    /// cube views. The driver's description cannot express this; the conversion of a portable description of a cube
    /// sets this field.
    pub is_cube: bool,
    /// For a texture with a typeless format: the format of its views, and further formats of views. The driver's
    /// description cannot express them; the conversion of a portable description with view formats sets this field.
    pub views: Option<(Format, FormatSet)>,
}

impl From<D3D12_RESOURCE_DESC> for ResourceInfo {
    /// Returns a description with the common state as its initial state, without a clear value, not zeroed, not a cube,
    /// and without the guarantee to return to the initial state.
    fn from(desc: D3D12_RESOURCE_DESC) -> Self {
        Self {
            desc,
            initial_state: D3D12_RESOURCE_STATE_COMMON,
            clear_value: None,
            returns_to_initial_state: false,
            zeroed: false,
            is_cube: false,
            views: None,
        }
    }
}

impl<K: NativeKind> Describe<Device, K> for ResourceInfo {
    #[inline]
    fn with_info<R>(&self, _: &Device, then: impl FnOnce(&Self) -> R) -> Result<R, DeviceError> {
        Ok(then(self))
    }
}
