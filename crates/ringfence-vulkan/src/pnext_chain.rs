//! Keys of descriptions, which include the chained structures and the list of queue families.
//!
//! ```text
//!   VkImageCreateInfo ── pNext ──▶ VkImageFormatListCreateInfo ── pNext ──▶ VkImageStencilUsageCreateInfo
//!      │  │                          │
//!      │  └▶ families [0, 2]         └▶ formats [UNORM, SRGB]
//!      ▼
//!    words of the structure itself │ family count, 0, 2 │ type, 2, UNORM, SRGB │ type, flags
//! ```
//!
//! Each part of a key has a fixed length or contains its length, and the words of a chained structure begin with its
//! type. Therefore different descriptions always have different keys. A description has no key if a chained structure
//! is unknown, or if the words do not fit into a key. Objects with such descriptions are not cached.
//!
//! | operation | cost |
//! |---|---|
//! | a key of a description without a chain, in mode `EXCLUSIVE` | O(1) |
//! | any other key | O(length of the chain and its lists) |

use ash::vk::{self, TaggedStructure};
use ringfence_hal::InfoKey;
use smallvec::SmallVec;

type Words = SmallVec<[u32; InfoKey::WORDS]>;

/// Returns the structures of a chain, in order.
///
/// # Safety
/// While the iterator is used, each structure and everything that it points to is valid.
pub(super) unsafe fn structures<'a>(
    first: *const std::ffi::c_void,
) -> impl Iterator<Item = &'a vk::BaseInStructure<'a>> {
    // SAFETY: the caller promises that the structures are valid. Each one begins with the fields of
    // `VkBaseInStructure`.
    let at = |place: *const vk::BaseInStructure<'a>| unsafe { place.as_ref() };
    std::iter::successors(at(first.cast()), move |structure| at(structure.p_next))
}

/// Returns a key of `own` and of everything that the description points to. Returns `None` if the description has no
/// key.
///
/// # Safety
/// The rules of [`structures`]. In mode `CONCURRENT`, `families` points to `count` valid numbers.
#[inline]
pub(super) unsafe fn key(
    own: &[u32],
    chain: *const std::ffi::c_void,
    mode: vk::SharingMode,
    (count, families): (u32, *const u32),
) -> Option<InfoKey> {
    if chain.is_null() && mode == vk::SharingMode::EXCLUSIVE {
        return Some(InfoKey::new(own));
    }
    // SAFETY: the caller's promises are those that `key_of_all` requires.
    unsafe { key_of_all(own, chain, mode, (count, families)) }
}

#[inline(never)]
unsafe fn key_of_all(
    own: &[u32],
    chain: *const std::ffi::c_void,
    mode: vk::SharingMode,
    (count, families): (u32, *const u32),
) -> Option<InfoKey> {
    let mut words = Words::from_slice(own);
    match mode {
        vk::SharingMode::EXCLUSIVE => words.push(0),
        vk::SharingMode::CONCURRENT => {
            words.push(count);
            // SAFETY: the caller promises that the list is valid and has this length.
            words.extend_from_slice(unsafe { list(families, count) });
        }
        _ => return None,
    }
    // SAFETY: the caller promises that the structures are valid.
    for structure in unsafe { structures(chain) } {
        // SAFETY: the caller promises that the structure and everything that it points to is valid.
        unsafe { add(structure, &mut words) }?;
    }
    (words.len() <= InfoKey::WORDS).then(|| InfoKey::new(&words))
}

/// Appends the words of a structure. Returns `None` if its type is unknown.
///
/// # Safety
/// The structure has the type that `s_type` names, and everything that it points to is valid.
unsafe fn add(structure: &vk::BaseInStructure<'_>, words: &mut Words) -> Option<()> {
    let place = std::ptr::from_ref(structure);
    words.push(structure.s_type.as_raw() as u32);
    // SAFETY: the structure has the type that `s_type` names.
    unsafe {
        match structure.s_type {
            vk::ImageFormatListCreateInfo::STRUCTURE_TYPE => {
                let formats = &*place.cast::<vk::ImageFormatListCreateInfo<'_>>();
                words.push(formats.view_format_count);
                let formats = list(formats.p_view_formats, formats.view_format_count);
                words.extend(formats.iter().map(|format| format.as_raw() as u32));
            }
            vk::ImageStencilUsageCreateInfo::STRUCTURE_TYPE => {
                words.push((*place.cast::<vk::ImageStencilUsageCreateInfo<'_>>()).stencil_usage.as_raw());
            }
            vk::BufferUsageFlags2CreateInfoKHR::STRUCTURE_TYPE => {
                let usage = (*place.cast::<vk::BufferUsageFlags2CreateInfoKHR<'_>>()).usage.as_raw();
                words.extend([usage as u32, (usage >> 32) as u32]);
            }
            _ => return None,
        }
    }
    Some(())
}

/// # Safety
/// `first` points to `count` valid elements, or `count` is 0.
unsafe fn list<'a, T>(first: *const T, count: u32) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    // SAFETY: the caller promises that the elements are valid.
    unsafe { std::slice::from_raw_parts(first, count as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image_key(info: &vk::ImageCreateInfo<'_>) -> Option<InfoKey> {
        let families = (info.queue_family_index_count, info.p_queue_family_indices);
        // SAFETY: everything that the tests point to is alive.
        unsafe { key(&[7; 12], info.p_next, info.sharing_mode, families) }
    }

    #[test]
    fn descriptions_that_differ_in_what_they_point_to_have_different_keys() {
        let [unorm, srgb, uint] = [vk::Format::R8G8B8A8_UNORM, vk::Format::R8G8B8A8_SRGB, vk::Format::R8G8B8A8_UINT];
        let formats: [&[vk::Format]; 5] = [&[], &[unorm], &[unorm, srgb], &[srgb, unorm], &[unorm, uint]];
        let families: [&[u32]; 4] = [&[0, 1], &[0, 2], &[1, 0], &[0, 1, 2]];
        let usages = [vk::ImageUsageFlags::SAMPLED, vk::ImageUsageFlags::DEPTH_STENCIL_ATTACHMENT];
        let plain = vk::ImageCreateInfo::default();
        let mut keys = vec![image_key(&plain)];
        keys.extend(
            families.map(|list| image_key(&plain.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(list))),
        );
        keys.extend(usages.map(|usage| {
            image_key(&plain.push_next(&mut vk::ImageStencilUsageCreateInfo::default().stencil_usage(usage)))
        }));
        for list in formats {
            let chained = || vk::ImageFormatListCreateInfo::default().view_formats(list);
            keys.push(image_key(&plain.push_next(&mut chained())));
            let shared = plain.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(&[0, 1]);
            keys.push(image_key(&shared.push_next(&mut chained())));
            let mut stencil = vk::ImageStencilUsageCreateInfo::default().stencil_usage(usages[0]);
            keys.push(image_key(&plain.push_next(&mut chained()).push_next(&mut stencil)));
        }
        assert!(keys.iter().all(Option::is_some));
        let different: std::collections::HashSet<_> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
    }

    #[test]
    fn the_same_at_another_place_has_the_same_key() {
        let of = |list: &[vk::Format]| {
            image_key(
                &vk::ImageCreateInfo::default()
                    .push_next(&mut vk::ImageFormatListCreateInfo::default().view_formats(list)),
            )
        };
        assert_eq!(
            of(&[vk::Format::R8_UNORM, vk::Format::R8_UINT]),
            of(&Vec::from([vk::Format::R8_UNORM, vk::Format::R8_UINT]))
        );
    }

    #[test]
    fn what_a_key_does_not_hold_has_none() {
        let plain = vk::ImageCreateInfo::default();
        let mut unknown = vk::ExternalMemoryImageCreateInfo::default();
        assert_eq!(image_key(&plain.push_next(&mut unknown)), None);
        let many = [vk::Format::R8_UNORM; 20];
        assert_eq!(
            image_key(&plain.push_next(&mut vk::ImageFormatListCreateInfo::default().view_formats(&many))),
            None
        );
    }

    #[test]
    fn the_wide_usage_flags_of_a_buffer_are_in_its_key() {
        let of = |usage: u64| {
            let usage = vk::BufferUsageFlags2KHR::from_raw(usage);
            let mut wide = vk::BufferUsageFlags2CreateInfoKHR::default().usage(usage);
            let info = vk::BufferCreateInfo::default().push_next(&mut wide);
            // SAFETY: the chain is alive, and no families are listed.
            unsafe { key(&[1; 4], info.p_next, info.sharing_mode, (0, std::ptr::null())) }
        };
        assert_ne!(of(1 << 40), of(1));
        assert_eq!(of(1 << 40), of(1 << 40));
        assert_ne!(of(0), None);
    }
}
