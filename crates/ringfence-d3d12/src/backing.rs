//! The kind of memory of a resource. It is stored as private data of the driver's object, because the API cannot report
//! it: `GetHeapProperties` succeeds for both placed and committed resources, and fails for reserved resources.
//!
//! The kinds must be distinguished, because aliasing barriers are allowed only for placed and reserved resources.

use ringfence_hal::DeviceError;
use windows::Win32::Graphics::Direct3D12::ID3D12Resource;
use windows::core::GUID;

use super::error;

/// The kind of memory of a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// The resource is placed in a heap (`CreatePlacedResource`). It may share its bytes with other resources.
    Placed,
    /// The resource has its own memory (`CreateCommittedResource`).
    Committed,
    /// The pages of the resource are bound one by one (`CreateReservedResource`).
    Reserved,
}

/// Name of the private data that stores the kind.
const MARK: GUID = GUID::from_u128(0x5d2f_7c0e_93b1_4e86_a1c4_0b6d_52e7_f318);

/// Returns the kind of memory of a resource. A resource that this crate did not create has no stored kind and counts as
/// placed.
#[must_use]
pub fn backing(resource: &ID3D12Resource) -> Backing {
    let (mut mark, mut bytes) = (0_u32, size_of::<u32>() as u32);
    let data = Some((&raw mut mark).cast());
    // SAFETY: the resource is alive; size and data are locals that live through the call, and `bytes` is the size of
    // the data.
    let found = unsafe { resource.GetPrivateData(&MARK, &mut bytes, data) };
    match (found, mark) {
        (Ok(()), 1) => Backing::Committed,
        (Ok(()), 2) => Backing::Reserved,
        _ => Backing::Placed,
    }
}

/// Stores the kind of memory of a new resource. For placed resources, stores nothing.
pub(super) fn mark(resource: &ID3D12Resource, backing: Backing) -> Result<(), DeviceError> {
    let mark: u32 = match backing {
        Backing::Placed => return Ok(()),
        Backing::Committed => 1,
        Backing::Reserved => 2,
    };
    let data = Some((&raw const mark).cast());
    // SAFETY: the resource is alive; the data is a local of that size that lives through the call.
    unsafe { resource.SetPrivateData(&MARK, size_of::<u32>() as u32, data) }
        .map_err(error::failed(error::call!("ID3D12Object::SetPrivateData", "a mark on a resource")))
}
