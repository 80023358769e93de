//! A heap of aliased memory for the resources of executions, and the objects that were created in it.
//!
//! ```text
//!   memory   │ depth 0..40 │ blur 40..64 │          │
//!            │ bloom 0..48       │ output 48..96    │      other objects, created earlier, unused at the moment
//!
//!   cache    (description, offset) ──▶ object           a hit creates nothing
//! ```

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::pass::{Clock, Pass};
use super::spans::Spans;
use crate::device::{Buffers, Device, InfoKey, RawBuffer, RawTexture, TextureDesc, Textures};
use ringfence_memory::extend::Place;
use ringfence_memory::{RawObject, ResourceKind};

/// Description of an object. Buffers and textures have different keys.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct ObjectKey {
    is_texture: bool,
    info: InfoKey,
}

impl ObjectKey {
    pub(super) fn new<K: TransientKind>(info: InfoKey) -> Self {
        Self { is_texture: K::IS_TEXTURE, info }
    }

    /// Returns the key as numbers, for the shape of a frame.
    pub(super) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(u64::from(self.is_texture)).chain(self.info.pairs().iter().copied())
    }
}

/// The kinds of transient resources: [`Buffers`] and [`Textures`].
pub trait TransientKind: ResourceKind + sealed::Sealed {
    /// `true` if resources of this kind have a layout.
    #[doc(hidden)]
    const IS_TEXTURE: bool;

    /// Returns the description of a texture. Returns `None` for buffers.
    #[doc(hidden)]
    fn texture_desc(desc: Self::Desc) -> Option<TextureDesc>;
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for crate::device::Buffers {}
    impl Sealed for crate::device::Textures {}
}

impl TransientKind for Buffers {
    const IS_TEXTURE: bool = false;

    fn texture_desc(_: Self::Desc) -> Option<TextureDesc> {
        None
    }
}

impl TransientKind for Textures {
    const IS_TEXTURE: bool = true;

    fn texture_desc(desc: TextureDesc) -> Option<TextureDesc> {
        Some(desc)
    }
}

/// A driver object that was created for an execution and is cached for later ones.
pub(super) struct Object<D: Device> {
    pub(super) raw: RawObject<D>,
    pub(super) place: Place<D>,
    /// `None` if the description has no key. The object cannot be found again in this case.
    pub(super) key: Option<ObjectKey>,
    /// Number of the heap; `None` for dedicated memory.
    pub(super) heap: Option<u32>,
    /// Offset in the heap, in bytes.
    pub(super) offset: u64,
    pub(super) size: u64,
    pub(super) is_texture: bool,
    /// Description of a texture; `None` for buffers, and for textures without a portable description.
    pub(super) texture: Option<TextureDesc>,
    /// Number in traces, if the object is in a heap.
    pub(super) traced: u64,
    /// `Some` if and only if the object is in use.
    pub(super) tenancy: Option<Tenancy>,
    /// Clock at which the last use of the object is over. Used only if the object has dedicated memory.
    pub(super) users: Clock,
    /// `true` if other objects may have used the object's bytes since the object was last active, and the spans do not
    /// show this. The reason is that the object's activation was not recorded, or that the other objects were released.
    pub(super) is_forgotten: bool,
    /// Number of the object's last acquire.
    pub(super) last_acquire: u32,
    /// Frame and execution of the object's last acquire.
    pub(super) last_frame: u64,
    pub(super) last_execution: u64,
}

/// The use of an object in this execution.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tenancy {
    pub(super) first: Pass,
    /// Number of the acquire.
    pub(super) acquire: u32,
}

impl<D: Device> Object<D> {
    pub(super) fn texture(&self) -> Option<&RawTexture<D>> {
        match &self.raw {
            RawObject::Texture(raw) => Some(raw),
            RawObject::Buffer(_) => None,
        }
    }

    pub(super) fn buffer(&self) -> Option<&RawBuffer<D>> {
        match &self.raw {
            RawObject::Buffer(raw) => Some(raw),
            RawObject::Texture(_) => None,
        }
    }
}

/// A heap of aliased memory, with the history of its bytes and the objects in it.
pub(super) struct Heap<D: Device> {
    /// The memory. It is freed with its last reference: this reference, or the reference of the last object that waits
    /// for the device.
    pub(super) whole: Arc<Place<D>>,
    pub(super) arena: u32,
    pub(super) bytes: u64,
    /// Alignment of the heap, in bytes.
    pub(super) alignment: u64,
    pub(super) spans: Spans,
    pub(super) cache: Cache,
    /// Number of objects in the heap, including those that cannot be found again.
    pub(super) object_count: usize,
    /// `true` if the heap is for planned frames, which lay out a heap as a whole.
    pub(super) is_planned: bool,
    /// Frame in which the heap became empty; `None` if it has objects.
    pub(super) idle_since: Option<u64>,
    /// Id of the plan that laid out the heap last. `None` if an object was acquired or released in another way after
    /// that.
    pub(super) last_plan: Option<u64>,
}

/// Numbers of objects by description, each with its offset in bytes, in ascending order of the offsets.
#[derive(Default)]
pub(super) struct Cache(HashMap<ObjectKey, Vec<(u64, u32)>, BuildHasherDefault<WordHasher>>);

impl Cache {
    /// Returns the objects with this description, by offset.
    pub(super) fn all(&self, key: &ObjectKey) -> &[(u64, u32)] {
        self.0.get(key).map_or(&[], Vec::as_slice)
    }

    pub(super) fn at(&self, key: &ObjectKey, offset: u64) -> Option<u32> {
        let held = self.all(key);
        held.binary_search_by_key(&offset, |(offset, _)| *offset).ok().map(|at| held[at].1)
    }

    pub(super) fn insert(&mut self, key: ObjectKey, offset: u64, object: u32) {
        let held = self.0.entry(key).or_default();
        held.insert(held.partition_point(|(other, _)| *other < offset), (offset, object));
    }

    pub(super) fn remove(&mut self, key: &ObjectKey, object: u32) {
        if let Some(held) = self.0.get_mut(key) {
            held.retain(|(_, other)| *other != object);
            if held.is_empty() {
                self.0.remove(key);
            }
        }
    }
}

/// A location in a heap for a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fit {
    pub(super) offset: u64,
    /// Existing object at this offset with the same description.
    pub(super) object: Option<u32>,
}

impl<D: Device> Heap<D> {
    /// Returns a location for a pass that begins at `clock`: the lowest free offset that has an existing object of the
    /// same description, otherwise the lowest free range.
    ///
    /// On one queue, if the requests repeat in the same order, the result is that of first fit. First fit found the
    /// lowest free range for the same request before, and the object in this range still exists. With several queues,
    /// the ranges that are free when an execution begins depend on the progress of the device. In this case, an
    /// existing object at another offset saves the creation of an object.
    pub(super) fn find(&self, key: Option<&ObjectKey>, size: u64, alignment: u64, clock: &Clock) -> Option<Fit> {
        let made = key.map_or(&[][..], |key| self.cache.all(key));
        let hit = made.iter().find(|(offset, _)| self.spans.is_free(*offset, size, clock));
        if let Some(&(offset, object)) = hit {
            return Some(Fit { offset, object: Some(object) });
        }
        let offset = self.spans.fit(size, alignment, clock)?;
        Some(Fit { offset, object: None })
    }
}

/// Hashes words by multiplication and rotation. Keys are sizes, formats and flags, which no attacker chooses.
#[derive(Default)]
pub(super) struct WordHasher(u64);

impl Hasher for WordHasher {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 29
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(word: u32) -> ObjectKey {
        ObjectKey::new::<Buffers>(InfoKey::new(&[word]))
    }

    #[test]
    fn objects_of_a_description_are_found_by_offset() {
        let mut cache = Cache::default();
        for (word, offset, object) in [(1, 64, 10), (1, 0, 11), (1, 128, 12), (2, 64, 13)] {
            cache.insert(key(word), offset, object);
        }
        assert_eq!(cache.all(&key(1)), [(0, 11), (64, 10), (128, 12)]);
        assert_eq!(cache.all(&key(3)), []);
        let at = |cache: &Cache| [0, 64, 65, 128].map(|offset| cache.at(&key(1), offset));
        assert_eq!(at(&cache), [Some(11), Some(10), None, Some(12)]);
        assert_eq!((cache.at(&key(2), 64), cache.at(&key(2), 0)), (Some(13), None));
        cache.remove(&key(1), 10);
        assert_eq!(at(&cache), [Some(11), None, None, Some(12)]);
        cache.remove(&key(1), 13);
        assert_eq!(cache.at(&key(2), 64), Some(13), "the object of another description");
        cache.remove(&key(2), 13);
        assert_eq!((cache.all(&key(2)), cache.0.len()), (&[][..], 1), "a description without objects is removed");
        cache.remove(&key(2), 13);
    }

    #[test]
    fn buffers_and_textures_have_different_keys_and_words() {
        let info = InfoKey::new(&[5, 6]);
        let (buffer, texture) = (ObjectKey::new::<Buffers>(info), ObjectKey::new::<Textures>(info));
        assert!(buffer != texture);
        let words = |key: ObjectKey| key.words().take(3).collect::<Vec<_>>();
        assert_eq!((words(buffer), words(texture)), (vec![0, 0x6_0000_0005, 0], vec![1, 0x6_0000_0005, 0]));
        assert_eq!(buffer.words().count(), 11);
    }

    #[test]
    fn only_textures_have_a_description_for_views() {
        let desc = TextureDesc { width: 5, ..Default::default() };
        assert_eq!(Textures::texture_desc(desc), Some(desc));
        let buffer = crate::device::BufferDesc { size: 4, usage: crate::device::BufferUsage::STORAGE };
        assert_eq!(Buffers::texture_desc(buffer), None);
    }

    #[test]
    fn different_words_have_different_hashes() {
        let hash = |words: &[u64]| super::super::plans::hash(words);
        let mut hashes: Vec<u64> = (0..64).map(|bit| hash(&[1 << bit])).collect();
        hashes.extend([hash(&[]), hash(&[1, 2]), hash(&[2, 1]), hash(&[1, 2, 0])]);
        hashes.sort_unstable();
        hashes.dedup();
        assert_eq!(hashes.len(), 68);
        let of = |write: &dyn Fn(&mut WordHasher)| {
            let mut hasher = WordHasher::default();
            write(&mut hasher);
            hasher.finish()
        };
        assert_eq!(of(&|hasher| hasher.write_u32(7)), hash(&[7]));
        assert_eq!(of(&|hasher| hasher.write(&[7, 0, 0])), hash(&[7]));
        assert_eq!(of(&|hasher| hasher.write(&[0, 0, 0, 0, 0, 0, 0, 0, 7])), hash(&[0, 7]));
    }
}
