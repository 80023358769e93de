//! The default methods of the traits, on a device that implements little more than the required ones.

use std::ptr::NonNull;

use super::*;
use crate::capabilities::tests::capabilities;
use crate::describe::{Describe, Native};
use crate::descriptors::PlacedTexture;
use crate::kind::{BufferDesc, TextureDesc};
use crate::sharing::{Share, Tied};
use crate::usage::TextureUsage;
use crate::{MemoryPriority, TexelFormat};

/// The required methods of a device without objects, except for `budgets`. The first field has its capabilities.
macro_rules! required_methods {
    () => {
        type Memory = u64;
        type Fence = ();
        type Pageable = ();

        fn capabilities(&self) -> &Capabilities {
            &self.0
        }

        fn format_support(&self, _: Format) -> FormatSupport {
            FormatSupport::default()
        }

        unsafe fn allocate_memory(&self, desc: &MemoryDesc<'_>) -> Result<u64, DeviceError> {
            Ok(desc.size)
        }

        unsafe fn free_memory(&self, _: u64) {}

        unsafe fn flush(&self, _: &u64, _: u64, _: u64) -> Result<(), DeviceError> {
            Ok(())
        }

        unsafe fn read_back(&self, _: &u64, _: u64, _: Mapped, _: &mut [u8]) -> Result<(), DeviceError> {
            Ok(())
        }

        unsafe fn completed(&self, (): &()) -> Result<u64, DeviceError> {
            Ok(0)
        }

        unsafe fn wait(&self, (): &(), _: u64, _: Duration) -> Result<bool, DeviceError> {
            Ok(true)
        }
    };
}

/// A device without objects. Its memory is a number of bytes.
struct Bare(Capabilities);

impl Bare {
    fn new() -> Self {
        Self(Capabilities { memory_priority: MemoryPriority::None, ..capabilities() })
    }
}

// SAFETY: the device has no objects and maps nothing.
unsafe impl Driver for Bare {
    required_methods!();

    fn budgets(&self) -> Option<HeapBudgets> {
        None
    }
}

/// A device that differs from [`Bare`] in one default method: memory is mapped.
struct Maps(Capabilities);

// SAFETY: the pointer is dangling, but no test reads from it.
unsafe impl Driver for Maps {
    required_methods!();

    fn mapped(&self, _: &u64) -> Option<Mapped> {
        Some(Mapped::new(NonNull::dangling()))
    }

    fn budgets(&self) -> Option<HeapBudgets> {
        None
    }
}

/// Implements the required methods of [`Create`], and the methods in braces.
macro_rules! create {
    ($kind:ty, $desc:ty, { $($more:item)* }) => {
        // SAFETY: the device has no objects.
        unsafe impl Create<$kind> for Bare {
            type Info<'a> = $desc;
            type Unplaced = u8;
            type Object = u8;
            type Raw<'a> = u8;

            fn raw(object: &u8) -> u8 {
                *object
            }

            fn describe(&self, desc: &$desc) -> Result<$desc, DeviceError> {
                <$kind>::check(desc).map(|()| *desc)
            }

            unsafe fn prepare(&self, _: &$desc) -> Result<(u8, Requirements), DeviceError> {
                Err(DeviceError::Lost)
            }

            unsafe fn discard(&self, _: u8) {}

            unsafe fn place(&self, _: &u8, _: &u64, _: u64) -> Result<Placed<u8>, DeviceError> {
                Err(DeviceError::Lost)
            }

            unsafe fn dedicate(&self, _: &u8, _: &MemoryDesc<'_>) -> Result<(Placed<u8>, u64), DeviceError> {
                Err(DeviceError::Lost)
            }

            unsafe fn destroy(&self, _: u8) {}

            unsafe fn set_name(&self, _: &u8, _: &str) {}

            $($more)*
        }
    };
}

create!(Buffers, BufferDesc, {});
create!(Textures, TextureDesc, {
    fn portable(&self, info: &TextureDesc) -> Option<TextureDesc> {
        (info.width > 1).then_some(*info)
    }

    fn key(&self, info: &TextureDesc) -> Option<InfoKey> {
        Some(InfoKey::new(&[info.width, 7]))
    }
});

// SAFETY: the device has no objects, and no handle is ever returned.
unsafe impl Share for Bare {
    type Handle = ();

    fn share_identity(&self) -> [u8; 32] {
        [0; 32]
    }

    unsafe fn export_memory(&self, _: &u64, _: ShareKind) -> Result<(), DeviceError> {
        Err(DeviceError::Lost)
    }

    unsafe fn import_memory(&self, (): (), _: &MemoryDesc<'_>, _: Tied<'_, Self>) -> Result<u64, DeviceError> {
        Err(DeviceError::Lost)
    }
}

fn buffer() -> BufferDesc {
    BufferDesc { size: 64, usage: crate::BufferUsage::COPY_SRC }
}

fn texture() -> TextureDesc {
    let usage = TextureUsage::COPY_SRC | TextureUsage::COPY_DST;
    TextureDesc { width: 16, layers: 3, format: Format::D16UnormS8Uint, usage, ..Default::default() }
}

#[test]
fn a_driver_without_these_features_says_so() {
    let device = Bare::new();
    device.note_aliasing(&5, 0, 1, true);
    assert!(device.mapped(&5).is_none() && device.map_whole(&5).is_none());
    assert!(!device.is_tied(&5));
    assert_eq!((device.pageable(&5), device.budgets_hold_for()), (None, Duration::ZERO));
    let unsupported = DeviceError::unsupported("residency");
    // SAFETY: the device has no objects.
    unsafe {
        assert_eq!(device.make_resident(&[()]), Err(unsupported));
        assert_eq!(device.evict(&[()]), Err(unsupported));
        device.set_priority(&5, Priority::High);
    }
    let device = Maps(device.0);
    assert_eq!(device.map_whole(&5).map(Mapped::as_ptr), Some(NonNull::dangling().as_ptr()));
}

#[test]
fn a_device_that_does_not_describe_its_resources_can_still_copy_them() {
    let device = Bare::new();
    let info = buffer();
    assert_eq!(Create::<Buffers>::portable(&device, &info), None);
    assert_eq!(Create::<Buffers>::parts(&device, &info), None);
    assert!(Create::<Buffers>::is_copied(&device, &info), "unknown usages may include copies");
    assert_eq!(Create::<Buffers>::key(&device, &info), None);
    assert_eq!(Create::<Buffers>::recycle_key(&device, &info), None);
    assert_eq!(Create::<Buffers>::rounded(&device, &info, |size| size + 1), None);
    assert!(!Create::<Buffers>::has_address(&device, &info));
    let none = ShareSupport { can_export: false, can_import: false, needs_dedicated: false };
    assert_eq!(Create::<Buffers>::share_support(&device, &info, ShareKind::DmaBuf), none);
    Create::<Buffers>::note_retired(&device, &3);
    // SAFETY: the device has no objects.
    unsafe {
        assert_eq!(Create::<Buffers>::recycle(&device, 3), 3);
        assert_eq!(Create::<Buffers>::address(&device, &3), 0);
        let shared = Create::<Buffers>::prepare_shared(&device, &info, ShareKind::DmaBuf);
        assert_eq!(shared, Err(DeviceError::unsupported("sharing memory with other processes")));
    }
}

#[test]
fn parts_copies_and_recycling_follow_the_portable_description_and_the_key() {
    let device = Bare::new();
    let info = texture();
    let parts = Create::<Textures>::parts(&device, &info).expect("it has a portable description");
    assert_eq!((parts.width, parts.layers, parts.format), (16, 3, TexelFormat::depth_stencil(2, 1)));
    assert!(Create::<Textures>::is_copied(&device, &info));
    let written = TextureDesc { usage: TextureUsage::COPY_DST, ..info };
    assert!(!Create::<Textures>::is_copied(&device, &written));
    let unknown = TextureDesc { width: 1, ..written };
    assert_eq!(Create::<Textures>::parts(&device, &unknown), None);
    assert!(Create::<Textures>::is_copied(&device, &unknown));
    assert_eq!(Create::<Textures>::recycle_key(&device, &info), Some(InfoKey::new(&[16, 7])));
}

#[test]
fn a_placed_texture_has_its_object_its_description_and_its_owner() {
    for owner in [0, 1, 7] {
        // SAFETY: the device has no objects, and no view is created.
        let placed = unsafe { PlacedTexture::<Bare>::new(&9, texture(), owner) };
        assert_eq!((placed.object(), placed.desc(), placed.owner()), (&9, &texture(), owner));
    }
}

#[test]
fn memory_for_a_resource_is_the_memory_of_its_description() {
    let class = crate::ResourceClass::Buffer;
    let priority = Priority::Normal;
    let desc = MemoryDesc { memory_type: 0, size: 77, alignment: 1, class, priority, name: "", share: None };
    // SAFETY: the memory type exists.
    assert_eq!(unsafe { Create::<Buffers>::allocate_memory_for(&Bare::new(), &3, &desc) }, Ok(77));
}

#[test]
fn a_handle_is_imported_as_the_type_that_was_exported() {
    for (memory_type, bits) in [(0, 1), (1, 2), (5, 32), (31, 1 << 31), (32, 0)] {
        assert_eq!(Bare::new().import_types(&(), ShareKind::OpaqueFd, memory_type), Ok(bits), "type {memory_type}");
    }
}

#[test]
fn a_description_reaches_the_device_unless_the_device_refuses_it() {
    let device = Bare::new();
    assert_eq!(buffer().with_info(&device, |info| info.size), Ok(64));
    let empty = BufferDesc { size: 0, ..buffer() };
    let refused = DeviceError::invalid("a buffer must have at least one byte").at_least(0, 1);
    assert_eq!(empty.with_info(&device, |_| unreachable!("it was refused")), refused);
    assert_eq!(texture().with_info(&device, |info| info.width), Ok(16));
    let flat = TextureDesc { height: 0, ..texture() };
    let refused = DeviceError::invalid("a texture must be at least one texel high").at_least(0, 1);
    assert_eq!(flat.with_info(&device, |_| unreachable!("it was refused")), refused);
    let native = Native::<Bare, Buffers>(&empty);
    assert_eq!(native.with_info(&device, |info| info.size), Ok(0), "a native description is not checked");
}

#[test]
fn a_key_has_two_words_in_a_number_and_the_first_is_low() {
    for (words, used, first) in [
        (&[][..], 0, [0, 0]),
        (&[1], 1, [1, 0]),
        (&[1, 2], 1, [0x2_0000_0001, 0]),
        (&[1, 2, 3], 2, [0x2_0000_0001, 3]),
        (&[0, u32::MAX, 0, 7], 2, [0xffff_ffff_0000_0000, 0x7_0000_0000]),
    ] {
        let key = InfoKey::new(words);
        assert_eq!((key.used(), [key.pairs()[0], key.pairs()[1]]), (used, first), "{words:?}");
        assert!(key.pairs()[2..].iter().all(|pair| *pair == 0), "{words:?}");
    }
    let full: Vec<u32> = (1..=20).collect();
    let key = InfoKey::new(&full);
    assert_eq!((key.used(), key.pairs().len(), key.pairs()[9]), (10, 10, 0x14_0000_0013));
    assert_eq!(InfoKey::new(&full[..19]).pairs()[9], 19);
    assert!(std::panic::catch_unwind(|| InfoKey::new(&[1; 21])).is_err(), "20 words are the maximum");
}
