//! How a resource got its memory: a mark on the driver's object, since the API cannot be asked.
//!
//! `GetHeapProperties` answers for placed and committed resources alike, and fails for reserved ones. The rules differ:
//! aliasing barriers are for placed and reserved resources alone.

use ringfence_hal::DeviceError;
use windows::Win32::Graphics::Direct3D12::ID3D12Resource;
use windows::core::GUID;

use super::error;

/// How a resource got its memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Backing {
    /// It lies in a heap (`CreatePlacedResource`), where others may have the same bytes.
    Placed,
    /// It brings memory of its own (`CreateCommittedResource`).
    Committed,
    /// Its pages are bound one by one (`CreateReservedResource`).
    Reserved,
}

/// The name of the mark.
const MARK: GUID = GUID::from_u128(0x5d2f_7c0e_93b1_4e86_a1c4_0b6d_52e7_f318);

/// Returns how a resource that this crate made got its memory. A resource that the program made itself has no mark, and
/// counts as placed.
#[must_use]
pub fn backing(resource: &ID3D12Resource) -> Backing {
    let (mut mark, mut bytes) = (0_u32, size_of::<u32>() as u32);
    let data = Some((&raw mut mark).cast());
    // SAFETY: the resource is alive; size and data are locals that live through the call, the data of that size.
    let found = unsafe { resource.GetPrivateData(&MARK, &mut bytes, data) };
    match (found, mark) {
        (Ok(()), 1) => Backing::Committed,
        (Ok(()), 2) => Backing::Reserved,
        _ => Backing::Placed,
    }
}

/// Marks a new resource; placed ones have no mark.
pub(super) fn mark(resource: &ID3D12Resource, backing: Backing) -> Result<(), DeviceError> {
    let mark: u32 = match backing {
        Backing::Placed => return Ok(()),
        Backing::Committed => 1,
        Backing::Reserved => 2,
    };
    let data = Some((&raw const mark).cast());
    // SAFETY: the resource is alive, and the data is a local of that size that lives through the call.
    unsafe { resource.SetPrivateData(&MARK, size_of::<u32>() as u32, data) }
        .map_err(error::failed(error::call!("ID3D12Object::SetPrivateData", "a mark on a resource")))
}
