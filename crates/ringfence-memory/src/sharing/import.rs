//! Resources in memory that another process created.
//!
//! ```text
//!   handle + SharedMemory ──checked──▶ prepare_shared ──measured──▶ import_memory ──▶ place ──▶ Resource
//! ```
//!
//! To the allocator, an import is a resource with dedicated memory: counted, traced, and retired like any other.

use std::panic;
use std::sync::Arc;

use ringfence_decision::Error;
use ringfence_observe::{Call, Event};

use super::{Share, ShareError, ShareKind, ShareSupport, SharedMemory, Tied};
use crate::allocator::Allocator;
use crate::device::{
    Buffers, Create, Describe, Device, DeviceError, Kind, MemoryDesc, Placed, Requirements, ResourceClass, Textures,
};
use crate::memory::{AllocationDesc, Place, Prepared, Shared};
use crate::resource::{Allocation, Buffer, Resource, ResourceKind, Texture};

/// A resource kind that memory can be tied to: the memory is then created for one resource of this kind.
trait Tie<D: Share>: ResourceKind {
    fn tie(unplaced: &<D as Create<Self>>::Unplaced) -> Tied<'_, D>
    where
        D: Create<Self>;
}

impl<D: Share> Tie<D> for Buffers {
    fn tie(unplaced: &<D as Create<Self>>::Unplaced) -> Tied<'_, D> {
        Tied::Buffer(unplaced)
    }
}

impl<D: Share> Tie<D> for Textures {
    fn tie(unplaced: &<D as Create<Self>>::Unplaced) -> Tied<'_, D> {
        Tied::Texture(unplaced)
    }
}

/// A resource in another process's memory, and that memory.
type Imported<D, K> = (Placed<<D as Create<K>>::Object>, Place<D>);

/// Returns the device's support for sharing the memory of such a buffer. On Vulkan a driver call.
#[must_use]
pub fn buffer_support<D: Device>(
    memory: &Allocator<D>,
    info: &impl Describe<D, Buffers>,
    kind: ShareKind,
) -> ShareSupport {
    support(memory.device(), info, kind)
}

/// Returns the device's support for sharing the memory of such a texture. On Vulkan a driver call.
#[must_use]
pub fn texture_support<D: Device>(
    memory: &Allocator<D>,
    info: &impl Describe<D, Textures>,
    kind: ShareKind,
) -> ShareSupport {
    support(memory.device(), info, kind)
}

/// Returns the device's support for sharing the memory of such a resource. If the device refuses the description,
/// returns no support.
fn support<D: Create<K>, K: Kind>(device: &D, info: &impl Describe<D, K>, kind: ShareKind) -> ShareSupport {
    info.with_info(device, |info| Create::<K>::share_support(device, info, kind)).unwrap_or_default()
}

/// Creates a buffer in memory that another process (or another allocator) has exported. Of `desc`, only name, location,
/// priority, user data and the fields that choose the memory type are used. If this device exported the memory and the
/// buffer allows the exporter's memory type, this type is used. Otherwise (for example for a dma-buf of another
/// device), the best type for `desc` that the buffer allows and this device accepts for the handle is used. If `desc`
/// allows none of these types, any of them is used. If the driver cannot map the memory, the buffer is not mapped.
///
/// Dropping the buffer retires it, like any buffer. The handle is consumed; on failure it is closed.
///
/// # Errors
/// The handle belongs to another device and is not a dma-buf; no memory type suits handle and buffer; the buffer does
/// not fit into the memory that `from` describes, or needs more bytes than were exported; or the driver refuses handle
/// or buffer.
///
/// # Safety
/// The handle was exported together with `from`, and `info` describes the buffer as the exporter created it. While the
/// host reads or writes its bytes through this value, no other code writes them.
#[track_caller]
pub unsafe fn import_buffer<D: Share>(
    memory: &Allocator<D>,
    info: &impl Describe<D, Buffers>,
    handle: D::Handle,
    from: &SharedMemory,
    desc: AllocationDesc<'_>,
) -> Result<Buffer<D>, ShareError> {
    // SAFETY: the caller promises the same.
    unsafe { Importer { shared: memory.shared() }.import(info, handle, from, desc) }
}

/// Creates a texture in memory that another process has exported, as [`import_buffer`] does for a buffer.
///
/// # Errors
/// As [`import_buffer`].
///
/// # Safety
/// As [`import_buffer`].
#[track_caller]
pub unsafe fn import_texture<D: Share>(
    memory: &Allocator<D>,
    info: &impl Describe<D, Textures>,
    handle: D::Handle,
    from: &SharedMemory,
    desc: AllocationDesc<'_>,
) -> Result<Texture<D>, ShareError> {
    // SAFETY: the caller promises the same.
    unsafe { Importer { shared: memory.shared() }.import(info, handle, from, desc) }
}

/// Imports a whole memory object that another process has exported, to bind resources in it
/// ([`Allocation::create_aliasing_buffer`]): for pools that share their blocks. `class` is the class of the exporter's
/// pool.
///
/// # Errors
/// As [`import_buffer`]; also [`ShareError::Tied`].
///
/// # Safety
/// As [`import_buffer`].
#[track_caller]
pub unsafe fn import_memory<D: Share>(
    memory: &Allocator<D>,
    handle: D::Handle,
    from: &SharedMemory,
    class: ResourceClass,
    desc: AllocationDesc<'_>,
) -> Result<Allocation<D>, ShareError> {
    let importer = Importer { shared: memory.shared() };
    importer.check_import(from)?;
    if from.is_tied {
        return Err(ShareError::Tied);
    }
    let whole = Requirements {
        size: from.memory_bytes,
        alignment: 1,
        memory_type_bits: u32::MAX,
        class,
        prefers_dedicated: false,
        requires_dedicated: false,
    };
    let from = SharedMemory { offset: 0, ..importer.taken_as(&handle, from, whole.memory_type_bits, &desc)? };
    // SAFETY: the caller promises the same; the memory is not tied to a resource.
    let place = unsafe { importer.import_place(handle, &from, &whole, Tied::Nothing, &desc) }?;
    importer.note_import(&place, &desc, panic::Location::caller());
    Ok(Allocation::of_place(Arc::clone(memory.shared()), place, &whole, &desc, false))
}

/// Creates memory and resources from handles.
struct Importer<'a, D: Device> {
    shared: &'a Arc<Shared<D>>,
}

impl<D: Share> Importer<'_, D> {
    /// # Safety
    /// As [`import_buffer`].
    #[track_caller]
    unsafe fn import<K: Tie<D>>(
        &self,
        info: &impl Describe<D, K>,
        handle: D::Handle,
        from: &SharedMemory,
        desc: AllocationDesc<'_>,
    ) -> Result<Resource<D, K>, ShareError>
    where
        D: Create<K>,
    {
        let at = panic::Location::caller();
        // SAFETY: the caller promises the same.
        info.with_info(&self.shared.device, |info| unsafe { self.import_at(info, handle, from, desc, at) })?
    }

    /// # Safety
    /// As [`import_buffer`].
    unsafe fn import_at<K: Tie<D>>(
        &self,
        info: &<D as Create<K>>::Info<'_>,
        handle: D::Handle,
        from: &SharedMemory,
        desc: AllocationDesc<'_>,
        at: &'static panic::Location<'static>,
    ) -> Result<Resource<D, K>, ShareError>
    where
        D: Create<K>,
    {
        self.check_import(from)?;
        let shared = self.shared;
        let (unplaced, needs) = shared.make_object(|| shared.prepare::<K>(info, Some(from.kind)))?;
        let unplaced = Prepared::<D, K>::new(&shared.device, unplaced);
        // SAFETY: the caller promises the same for the handle.
        let (placed, place) = unsafe { self.import_prepared::<K>(unplaced.get(), &needs, handle, from, &desc) }?;
        unplaced.used_up();
        shared.notify(Event::Called(Call::CreateObject));
        if !desc.name.is_empty() {
            // SAFETY: the object was just created.
            unsafe { Create::<K>::set_name(&shared.device, &placed.object, desc.name) };
        }
        self.note_import(&place, &desc, at);
        // SAFETY: the object was just created from `info`, and bound to the place.
        let resource =
            unsafe { Resource::new(Arc::clone(shared), placed, place, needs.size, desc.location).made_as(info) };
        Ok(resource.with_user_data(desc.user_data))
    }

    /// # Safety
    /// As [`import_buffer`]; `unplaced` belongs to the device, is not bound, and has these needs.
    unsafe fn import_prepared<K: Tie<D>>(
        &self,
        unplaced: &<D as Create<K>>::Unplaced,
        needs: &Requirements,
        handle: D::Handle,
        from: &SharedMemory,
        desc: &AllocationDesc<'_>,
    ) -> Result<Imported<D, K>, ShareError>
    where
        D: Create<K>,
    {
        let from = &self.taken_as(&handle, from, needs.memory_type_bits, desc)?;
        if needs.size > from.size {
            return Err(ShareError::Larger { size: needs.size, exported_bytes: from.size });
        }
        let tied = if from.is_tied { K::tie(unplaced) } else { Tied::Nothing };
        // SAFETY: the caller promises the same for the handle; if it is tied to a resource, then to this one.
        let place = unsafe { self.import_place(handle, from, needs, tied, desc) }?;
        // SAFETY: the memory type is allowed, and the range is inside the memory and aligned.
        Ok(unsafe { self.shared.place_at::<K>(unplaced, place) }?)
    }

    fn check_import(&self, from: &SharedMemory) -> Result<(), ShareError> {
        self.shared.check_lost()?;
        let memory_type_count = self.shared.device.capabilities().memory_types.len() as u32;
        let is_foreign = from.identity != self.shared.device.share_identity();
        match from {
            SharedMemory { kind, .. } if *kind != ShareKind::DmaBuf && is_foreign => {
                Err(ShareError::OtherDevice { kind: *kind })
            }
            SharedMemory { kind, memory_type, .. }
                if *kind != ShareKind::DmaBuf && *memory_type >= memory_type_count =>
            {
                Err(Error::UnknownMemoryType { memory_type: *memory_type, memory_type_count }.into())
            }
            SharedMemory { memory_bytes: 0, .. } => Err(Error::ZeroSize.into()),
            _ => Ok(()),
        }
    }

    /// Returns `from` with a memory type that is in `memory_type_bits` and that the device accepts for the handle. If
    /// this device exported the memory and the exporter's type is such a type, it is chosen. Otherwise, the best such
    /// type for `desc` is chosen, or if `desc` allows none, any such type.
    fn taken_as(
        &self,
        handle: &D::Handle,
        from: &SharedMemory,
        memory_type_bits: u32,
        desc: &AllocationDesc<'_>,
    ) -> Result<SharedMemory, ShareError> {
        let Shared { device, order, .. } = &**self.shared;
        let taken = device.import_types(handle, from.kind, from.memory_type)?;
        let bits = taken & memory_type_bits;
        let is_own =
            from.identity == device.share_identity() && bits.checked_shr(from.memory_type).unwrap_or(0) & 1 == 1;
        let own = is_own.then_some(from.memory_type);
        let best = || order.candidates_for(device.capabilities(), desc, bits).next();
        let first = || (bits != 0).then(|| bits.trailing_zeros());
        let wrong = Error::WrongMemoryType { memory_type: taken.trailing_zeros(), memory_type_bits };
        let memory_type = own.or_else(best).or_else(first).ok_or(wrong)?;
        Ok(SharedMemory { memory_type, ..*from })
    }

    /// Imports the memory, and returns a place in it at `from.offset`.
    ///
    /// # Safety
    /// As [`Share::import_memory`].
    unsafe fn import_place(
        &self,
        handle: D::Handle,
        from: &SharedMemory,
        needs: &Requirements,
        tied: Tied<'_, D>,
        desc: &AllocationDesc<'_>,
    ) -> Result<Place<D>, ShareError> {
        let SharedMemory { memory_bytes, memory_type, offset, kind, .. } = *from;
        let Requirements { size, alignment, class, .. } = *needs;
        let is_inside = offset.checked_add(size).is_some_and(|end| end <= memory_bytes);
        if !is_inside || !offset.is_multiple_of(alignment) {
            return Err(ShareError::DoesNotFit { offset, size, alignment, memory_bytes });
        }
        let shared = self.shared;
        let memory_desc = MemoryDesc {
            memory_type,
            size: memory_bytes,
            alignment,
            class,
            name: desc.name,
            priority: desc.priority,
            share: Some(kind),
        };
        // SAFETY: the caller promises the same.
        let import = || unsafe { shared.device.import_memory(handle, &memory_desc, tied) };
        shared.import_place(&memory_desc, offset, desc, import).map_err(|error: DeviceError| error.into())
    }

    fn note_import(&self, place: &Place<D>, desc: &AllocationDesc<'_>, at: &'static panic::Location<'static>) {
        self.shared.note_whole(place, desc, at);
    }
}
