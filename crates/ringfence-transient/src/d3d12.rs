//! Recording the barriers of transient memory.

use std::mem::ManuallyDrop;

use smallvec::SmallVec;
use windows::Win32::Graphics::Direct3D12::*;

use crate::{Direct3d12Barrier, Pass, TransientAllocator, TransientId};
use ringfence_d3d12::Device;
use ringfence_memory::RawObject;

impl TransientAllocator<Device> {
    /// Records the barriers of a pass ([`Barrier::on_direct3d_12`]) in one driver call. Call it at the beginning of the
    /// pass, after all its resources were acquired. An [`Execution`] has this method too.
    ///
    /// This call records no state transition and no discard: the program records them after this call.
    ///
    /// On a list for copy queues, nothing is recorded, because the API allows only transitions there. On such a list
    /// the program's own transitions order the copies. After the last use of the previous resource, record a transition
    /// from `COPY_DEST` to the common state. Before the first use of the next resource, record a transition from the
    /// common state to `COPY_DEST`. The first pass that uses a render target or depth buffer must be on a direct list,
    /// or on a compute list that can initialise it (for example by a copy).
    ///
    /// # Safety
    /// The list must belong to this device, be open, and be recorded by this thread only.
    ///
    /// [`Barrier::on_direct3d_12`]: crate::Barrier::on_direct3d_12
    /// [`Execution`]: crate::Execution
    pub unsafe fn record_barriers(&self, pass: Pass, list: &ID3D12GraphicsCommandList) {
        // SAFETY: the caller promises that the list is open. The call has no arguments, and the object is alive.
        if unsafe { list.GetType() } == D3D12_COMMAND_LIST_TYPE_COPY {
            return;
        }
        let of_pass = self.barriers().iter().filter(|barrier| barrier.pass == pass);
        let native = of_pass.flat_map(|barrier| barrier.on_direct3d_12()).map(|barrier| self.native(barrier));
        let barriers: SmallVec<[_; 16]> = native.collect();
        if !barriers.is_empty() {
            // SAFETY: the caller promises that the list is open. The barriers refer to live objects or to no object.
            unsafe { list.ResourceBarrier(&barriers) };
        }
    }

    fn native(&self, barrier: Direct3d12Barrier) -> D3D12_RESOURCE_BARRIER {
        let (kind, barrier) = match barrier {
            Direct3d12Barrier::UnorderedAccess => {
                let every = D3D12_RESOURCE_UAV_BARRIER { pResource: ManuallyDrop::new(None) };
                (D3D12_RESOURCE_BARRIER_TYPE_UAV, D3D12_RESOURCE_BARRIER_0 { UAV: ManuallyDrop::new(every) })
            }
            Direct3d12Barrier::Aliasing { before, after } => {
                let aliasing = D3D12_RESOURCE_ALIASING_BARRIER {
                    pResourceBefore: before.map_or(ManuallyDrop::new(None), |before| self.borrowed(before)),
                    pResourceAfter: self.borrowed(after),
                };
                (
                    D3D12_RESOURCE_BARRIER_TYPE_ALIASING,
                    D3D12_RESOURCE_BARRIER_0 { Aliasing: ManuallyDrop::new(aliasing) },
                )
            }
        };
        D3D12_RESOURCE_BARRIER { Type: kind, Flags: D3D12_RESOURCE_BARRIER_FLAG_NONE, Anonymous: barrier }
    }

    /// Returns the object for a structure that the driver only reads, without counting a reference. Returns null if the
    /// object was released.
    fn borrowed(&self, id: TransientId) -> ManuallyDrop<Option<ID3D12Resource>> {
        match self.raw(id) {
            // SAFETY: an interface is one pointer, and so is an option of it. The copy is never dropped, so it releases
            // no reference. The structure is used only while `self` is borrowed, and `self` owns the object.
            Ok(RawObject::Buffer(raw) | RawObject::Texture(raw)) => unsafe { std::mem::transmute_copy(raw) },
            Err(_) => ManuallyDrop::new(None),
        }
    }
}
