//! Queue families and ownership of resources, as with Vulkan's exclusive sharing mode.
//!
//! ```text
//!   unowned  ──first use──▶ family 1's ──Release { to: 0 }──▶ released   ──Acquire { from: 1 }──▶ family 0's
//!                               ▲
//!                               └── overwritten as a whole by a queue of family 1, which discards its old content
//! ```
//!
//! All queues are in family 0 until [`Device::set_family`](super::Device::set_family) changes that. Ownership follows
//! the order of submission, so a release must be submitted before its acquire. The release must also execute before the
//! acquire: a fence must order the two. A missing fence is found only if other commands of both queues use the same
//! bytes (see `QueueConflict`). The ownership of resources that are used through descriptors is not checked.

use super::command::{BufferRange, Command};
use super::hazard::{Hazard, HazardKind};
use super::ids::{Buffer, Texture};
use super::objects::{Owner, Shape};
use super::state::State;
use super::texels::Part;
use ringfence_hal::transfer::{TextureBoxCopy, TextureResolve};

/// Way in which a command uses a resource.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    /// Reads the resource, or writes a part of it: its contents must be kept.
    Content,
    /// Writes the whole resource: its old contents may be lost.
    Overwrite,
}

impl State {
    /// Reports each resource that a command uses although the family of its queue does not own the resource. Records
    /// releases and acquires.
    pub(super) fn check_owners(&mut self, queue: usize, command: &Command) {
        let family = self.queues.family(queue);
        match command {
            Command::CopyBuffer { src, dst, dst_offset, size, .. } => {
                self.use_by(queue, family, src.0, Use::Content);
                let range = BufferRange::new(*dst, *dst_offset, *size);
                self.use_by(queue, family, dst.0, self.buffer_write(range));
            }
            Command::FillBuffer { dst, offset, size, .. } | Command::FillWords { dst, offset, size, .. } => {
                let range = BufferRange::new(*dst, *offset, *size);
                self.use_by(queue, family, dst.0, self.buffer_write(range));
            }
            Command::CopyBufferToTexture { src, dst, region, .. } => {
                self.use_by(queue, family, src.0, Use::Content);
                let part = self.texture_desc(*dst).map(|desc| Part::flat(region, &desc));
                self.use_by(queue, family, dst.0, self.texture_write(*dst, part));
            }
            Command::CopyBufferToTexels { src, dst, region } => {
                self.use_by(queue, family, src.0, Use::Content);
                self.use_by(queue, family, dst.0, self.texture_write(*dst, Some(Part::of(region))));
            }
            Command::CopyTextureToBuffer { src, dst, .. } | Command::CopyTexelsToBuffer { src, dst, .. } => {
                self.use_by(queue, family, src.0, Use::Content);
                self.use_by(queue, family, dst.0, Use::Content);
            }
            Command::Clear { texture, .. } | Command::Discard { texture } => {
                self.use_by(queue, family, texture.0, Use::Overwrite);
            }
            Command::CopyTexture { src, dst, mip, layer } => {
                self.use_by(queue, family, src.0, Use::Content);
                let is_all = (*mip, *layer) == (0, 0);
                let is_all = is_all && self.texture_desc(*dst).is_some_and(|desc| desc.mips == 1 && desc.layers == 1);
                self.use_by(queue, family, dst.0, if is_all { Use::Overwrite } else { Use::Content });
            }
            Command::ClearTexels { texture, .. } | Command::BlitMip { texture, .. } => {
                self.use_by(queue, family, texture.0, Use::Content);
            }
            Command::CopyTexels(TextureBoxCopy { src, dst, .. })
            | Command::ResolveTexels(TextureResolve { src, dst, .. }) => {
                self.use_by(queue, family, src.0, Use::Content);
                self.use_by(queue, family, dst.0, Use::Content);
            }
            Command::Kernel(kernel) => {
                for range in kernel.reads.iter().chain(&kernel.writes) {
                    self.use_by(queue, family, range.buffer.0, Use::Content);
                }
            }
            Command::Barrier(_) => {}
            Command::Release { buffers, textures, to } => {
                for id in ids(buffers, textures) {
                    self.use_by(queue, family, id, Use::Content);
                    self.set_owner(id, Owner::Underway { from: family, to: *to });
                }
            }
            Command::Acquire { buffers, textures, from } => {
                for id in ids(buffers, textures) {
                    if self.owner(id) != Some(Owner::Underway { from: *from, to: family }) {
                        self.not_owned(queue, id, "acquired, but not released to this family");
                    }
                    self.set_owner(id, Owner::Family(family));
                }
            }
        }
    }

    fn owner(&self, id: u64) -> Option<Owner> {
        self.resources.get(&id).map(|held| held.owner)
    }

    fn set_owner(&mut self, id: u64, owner: Owner) {
        if let Some(held) = self.resources.get_mut(&id) {
            held.owner = owner;
        }
    }

    /// Records a use. If the family does not own the resource, reports that and makes the family the owner, so that the
    /// mistake is reported once.
    fn use_by(&mut self, queue: usize, family: u32, id: u64, how: Use) {
        match self.owner(id) {
            // Resources that are not alive are reported by other checks.
            None => return,
            Some(Owner::Family(owner)) if owner == family => return,
            Some(Owner::Unowned) => {}
            Some(Owner::Family(_)) if how == Use::Overwrite => {}
            Some(Owner::Family(_)) => self.not_owned(queue, id, "another family owns it and has not released it"),
            Some(Owner::Underway { .. }) => self.not_owned(queue, id, "it was released, and no queue has acquired it"),
        }
        self.set_owner(id, Owner::Family(family));
    }

    fn not_owned(&mut self, queue: usize, id: u64, detail: &'static str) {
        if let Some(held) = self.resources.get(&id) {
            let hazard = Hazard::about(HazardKind::NotOwned, held.label.clone());
            self.report(hazard.detail(detail).on_queue(queue));
        }
    }

    fn buffer_write(&self, range: BufferRange) -> Use {
        let shape = self.resources.get(&range.buffer.0).map(|held| held.shape.clone());
        match shape {
            Some(Shape::Buffer(desc)) if (range.offset, range.size) == (0, desc.size) => Use::Overwrite,
            _ => Use::Content,
        }
    }

    /// Returns `Overwrite` if the command writes all of a texture that has one subresource. A write to a texture with
    /// several subresources leaves the contents of the others, which must be kept.
    fn texture_write(&self, texture: Texture, part: Option<Part>) -> Use {
        let is_all = self.texture_desc(texture).zip(part).is_some_and(|(desc, part)| part.is_all_of(&desc));
        if is_all { Use::Overwrite } else { Use::Content }
    }
}

fn ids<'a>(buffers: &'a [Buffer], textures: &'a [Texture]) -> impl Iterator<Item = u64> + use<'a> {
    buffers.iter().map(|buffer| buffer.0).chain(textures.iter().map(|texture| texture.0))
}
