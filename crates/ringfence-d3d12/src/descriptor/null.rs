//! Null descriptors. Each one matches the previous view of its slot.
//!
//! A shader that reads a null descriptor reads zeros if the descriptor has the kind that the shader declares: SRV, UAV
//! or constants, the dimension, and the element type. If the kinds differ, the behaviour is undefined and can remove
//! the device. Each heap therefore records the kind of the last view of each slot. A cleared slot gets a null
//! descriptor of that kind.
//!
//! ```text
//!   bits   0..2     2..7        7     8..16     16..28
//!          class    dimension   raw   format    stride of a structure
//! ```
//!
//! | operation | cost |
//! |---|---|
//! | `note`, `copy`, `null` | a store or a load of four bytes for each slot |

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use windows::Win32::Graphics::Direct3D12::*;
use windows::Win32::Graphics::Dxgi::Common::*;

use super::view::View;

const SHADER_RESOURCE: u32 = 1;
const UNORDERED_ACCESS: u32 = 2;
const CONSTANTS: u32 = 3;

/// Kind of a view, packed into 32 bits; 0 if it is not known.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct ViewKind(u32);

/// For each slot of a heap of resource views, the kind of its last view. Heaps of other kinds have an empty list.
/// Clones share one list.
#[derive(Clone, Debug)]
pub(super) struct ViewKinds(Arc<[AtomicU32]>);

impl ViewKinds {
    pub(super) fn new(slots: u32) -> Self {
        Self((0..slots).map(|_| AtomicU32::new(0)).collect())
    }

    pub(super) fn note(&self, slot: u32, view: &View) {
        if let Some(held) = self.0.get(slot as usize) {
            held.store(ViewKind::of(view).0, Ordering::Relaxed);
        }
    }

    /// Copies the kinds of the views of copied slots.
    pub(super) fn copy(&self, start: u32, from: &Self, from_start: u32, count: u32) {
        for at in 0..count as usize {
            let (to, from) = (self.0.get(start as usize + at), from.0.get(from_start as usize + at));
            if let (Some(to), Some(from)) = (to, from) {
                to.store(from.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        }
    }

    /// Returns the null descriptor for a slot. Returns `None` if the kind of its last view is unknown.
    pub(super) fn null(&self, slot: u32) -> Option<View> {
        ViewKind(self.0.get(slot as usize)?.load(Ordering::Relaxed)).null()
    }
}

impl ViewKind {
    fn new(class: u32, dimension: i32, raw: bool, format: DXGI_FORMAT, stride: u32) -> Self {
        Self(
            class
                | (dimension as u32 & 31) << 2
                | u32::from(raw) << 7
                | (format.0 as u32 & 255) << 8
                | (stride & 4095) << 16,
        )
    }

    fn of(view: &View) -> Self {
        match view {
            View::Constants(_) => Self::new(CONSTANTS, 0, false, DXGI_FORMAT_UNKNOWN, 0),
            View::ShaderResource(_, Some(desc)) => {
                let (stride, raw) = if desc.ViewDimension == D3D12_SRV_DIMENSION_BUFFER {
                    // SAFETY: the dimension says that the union holds a buffer.
                    let shown = unsafe { desc.Anonymous.Buffer };
                    (shown.StructureByteStride, shown.Flags.contains(D3D12_BUFFER_SRV_FLAG_RAW))
                } else {
                    (0, false)
                };
                Self::new(SHADER_RESOURCE, desc.ViewDimension.0, raw, desc.Format, stride)
            }
            View::UnorderedAccess { desc: Some(desc), .. } => {
                let (stride, raw) = if desc.ViewDimension == D3D12_UAV_DIMENSION_BUFFER {
                    // SAFETY: the dimension says that the union holds a buffer.
                    let shown = unsafe { desc.Anonymous.Buffer };
                    (shown.StructureByteStride, shown.Flags.contains(D3D12_BUFFER_UAV_FLAG_RAW))
                } else {
                    (0, false)
                };
                Self::new(UNORDERED_ACCESS, desc.ViewDimension.0, raw, desc.Format, stride)
            }
            _ => Self::default(),
        }
    }

    fn null(self) -> Option<View> {
        let dimension = (self.0 >> 2 & 31) as i32;
        let (is_raw, stride) = (self.0 >> 7 & 1 == 1, self.0 >> 16 & 4095);
        let format = DXGI_FORMAT((self.0 >> 8 & 255) as i32);
        match self.0 & 3 {
            CONSTANTS => Some(View::Constants(D3D12_CONSTANT_BUFFER_VIEW_DESC { BufferLocation: 0, SizeInBytes: 256 })),
            SHADER_RESOURCE => {
                let dimension = D3D12_SRV_DIMENSION(dimension);
                let shown = null_srv(dimension, is_raw, stride)?;
                let desc = D3D12_SHADER_RESOURCE_VIEW_DESC {
                    Format: format,
                    ViewDimension: dimension,
                    Shader4ComponentMapping: D3D12_DEFAULT_SHADER_4_COMPONENT_MAPPING,
                    Anonymous: shown,
                };
                Some(View::ShaderResource(None, Some(desc)))
            }
            UNORDERED_ACCESS => {
                let dimension = D3D12_UAV_DIMENSION(dimension);
                let shown = null_uav(dimension, is_raw, stride)?;
                let desc =
                    D3D12_UNORDERED_ACCESS_VIEW_DESC { Format: format, ViewDimension: dimension, Anonymous: shown };
                Some(View::UnorderedAccess { resource: None, counter: None, desc: Some(desc) })
            }
            _ => None,
        }
    }
}

/// Describes a view of one element, mip level, layer or cube: the API allows it for every format.
fn null_srv(dimension: D3D12_SRV_DIMENSION, raw: bool, stride: u32) -> Option<D3D12_SHADER_RESOURCE_VIEW_DESC_0> {
    type Shown = D3D12_SHADER_RESOURCE_VIEW_DESC_0;
    Some(match dimension {
        D3D12_SRV_DIMENSION_BUFFER => Shown {
            Buffer: D3D12_BUFFER_SRV {
                NumElements: 1,
                StructureByteStride: stride,
                Flags: if raw { D3D12_BUFFER_SRV_FLAG_RAW } else { D3D12_BUFFER_SRV_FLAG_NONE },
                ..Default::default()
            },
        },
        D3D12_SRV_DIMENSION_TEXTURE1D => Shown { Texture1D: D3D12_TEX1D_SRV { MipLevels: 1, ..Default::default() } },
        D3D12_SRV_DIMENSION_TEXTURE1DARRAY => {
            Shown { Texture1DArray: D3D12_TEX1D_ARRAY_SRV { MipLevels: 1, ArraySize: 1, ..Default::default() } }
        }
        D3D12_SRV_DIMENSION_TEXTURE2D => Shown { Texture2D: D3D12_TEX2D_SRV { MipLevels: 1, ..Default::default() } },
        D3D12_SRV_DIMENSION_TEXTURE2DARRAY => {
            Shown { Texture2DArray: D3D12_TEX2D_ARRAY_SRV { MipLevels: 1, ArraySize: 1, ..Default::default() } }
        }
        D3D12_SRV_DIMENSION_TEXTURE2DMS => Shown { Texture2DMS: D3D12_TEX2DMS_SRV::default() },
        D3D12_SRV_DIMENSION_TEXTURE2DMSARRAY => {
            Shown { Texture2DMSArray: D3D12_TEX2DMS_ARRAY_SRV { FirstArraySlice: 0, ArraySize: 1 } }
        }
        D3D12_SRV_DIMENSION_TEXTURE3D => Shown { Texture3D: D3D12_TEX3D_SRV { MipLevels: 1, ..Default::default() } },
        D3D12_SRV_DIMENSION_TEXTURECUBE => {
            Shown { TextureCube: D3D12_TEXCUBE_SRV { MipLevels: 1, ..Default::default() } }
        }
        D3D12_SRV_DIMENSION_TEXTURECUBEARRAY => {
            Shown { TextureCubeArray: D3D12_TEXCUBE_ARRAY_SRV { MipLevels: 1, NumCubes: 1, ..Default::default() } }
        }
        // Acceleration structures and later dimensions.
        _ => return None,
    })
}

fn null_uav(dimension: D3D12_UAV_DIMENSION, raw: bool, stride: u32) -> Option<D3D12_UNORDERED_ACCESS_VIEW_DESC_0> {
    type Shown = D3D12_UNORDERED_ACCESS_VIEW_DESC_0;
    Some(match dimension {
        D3D12_UAV_DIMENSION_BUFFER => Shown {
            Buffer: D3D12_BUFFER_UAV {
                NumElements: 1,
                StructureByteStride: stride,
                Flags: if raw { D3D12_BUFFER_UAV_FLAG_RAW } else { D3D12_BUFFER_UAV_FLAG_NONE },
                ..Default::default()
            },
        },
        D3D12_UAV_DIMENSION_TEXTURE1D => Shown { Texture1D: D3D12_TEX1D_UAV::default() },
        D3D12_UAV_DIMENSION_TEXTURE1DARRAY => {
            Shown { Texture1DArray: D3D12_TEX1D_ARRAY_UAV { ArraySize: 1, ..Default::default() } }
        }
        D3D12_UAV_DIMENSION_TEXTURE2D => Shown { Texture2D: D3D12_TEX2D_UAV::default() },
        D3D12_UAV_DIMENSION_TEXTURE2DARRAY => {
            Shown { Texture2DArray: D3D12_TEX2D_ARRAY_UAV { ArraySize: 1, ..Default::default() } }
        }
        D3D12_UAV_DIMENSION_TEXTURE3D => Shown { Texture3D: D3D12_TEX3D_UAV { WSize: 1, ..Default::default() } },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn srv(dimension: D3D12_SRV_DIMENSION, format: DXGI_FORMAT, stride: u32, raw: bool) -> View {
        let desc = D3D12_SHADER_RESOURCE_VIEW_DESC {
            Format: format,
            ViewDimension: dimension,
            Shader4ComponentMapping: D3D12_DEFAULT_SHADER_4_COMPONENT_MAPPING,
            Anonymous: null_srv(dimension, raw, stride).expect("a known dimension"),
        };
        View::ShaderResource(None, Some(desc))
    }

    #[test]
    fn a_cleared_slot_keeps_the_kind_of_its_last_view() {
        let (view_kinds, others) = (ViewKinds::new(4), ViewKinds::new(4));
        assert!(view_kinds.null(0).is_none(), "no view was written yet");
        for (dimension, format, stride, raw) in [
            (D3D12_SRV_DIMENSION_TEXTURECUBE, DXGI_FORMAT_BC7_UNORM_SRGB, 0, false),
            (D3D12_SRV_DIMENSION_TEXTURE2DMSARRAY, DXGI_FORMAT_R8G8B8A8_UNORM, 0, false),
            (D3D12_SRV_DIMENSION_BUFFER, DXGI_FORMAT_UNKNOWN, 2048, false),
            (D3D12_SRV_DIMENSION_BUFFER, DXGI_FORMAT_R32_TYPELESS, 0, true),
        ] {
            let view = srv(dimension, format, stride, raw);
            view_kinds.note(1, &view);
            others.copy(2, &view_kinds, 1, 1);
            let null = others.null(2).expect("it was noted and copied");
            assert_eq!(ViewKind::of(&null), ViewKind::of(&view), "{dimension:?}");
            let View::ShaderResource(None, Some(desc)) = null else { panic!("another class") };
            assert_eq!((desc.ViewDimension, desc.Format), (dimension, format));
        }
        view_kinds
            .note(3, &View::Constants(D3D12_CONSTANT_BUFFER_VIEW_DESC { BufferLocation: 4096, SizeInBytes: 512 }));
        assert!(matches!(view_kinds.null(3), Some(View::Constants(desc)) if desc.BufferLocation == 0));
    }
}
