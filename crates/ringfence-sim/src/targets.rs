//! Initialisation of render targets and depth buffers. Each subresource must be initialised before any other use.
//!
//! ```text
//!   created, or activated by an aliasing barrier ──▶ undefined ──clear, discard, copy of the whole──▶ initialised
//!                                                    └──any other use: a hazard
//! ```
//!
//! This is a rule of Direct3D 12, because memory that is not zeroed may contain invalid metadata of a target. Only
//! strict profiles check it. The commands `Clear` and `Discard` initialise a whole texture.

use super::access::Placed;
use super::command::{Barrier, Resource};
use super::hazard::HazardKind;
use super::ids::{Label, Texture, What};
use super::objects::{Part, Shape};
use super::order::Access;
use super::state::State;
use super::step::{Address, Step, Uses};
use ringfence_hal::{TextureAspect, TextureDesc, TextureUsage};

const TARGETS: TextureUsage = TextureUsage::RENDER_TARGET.union(TextureUsage::DEPTH_STENCIL);
const UNDEFINED: &str = "a render target or depth buffer before a clear, a discard or a copy of a whole subresource";

/// Returns every subresource of a texture.
fn subresources(desc: &TextureDesc) -> impl Iterator<Item = Part> + use<> {
    let (mips, layers, has) = (desc.mips, desc.layers, desc.format.texels().aspects());
    let aspects = move || TextureAspect::ALL.into_iter().filter(move |aspect| has.contains(aspect.flag()));
    let of_mip = move |mip| (0..layers).flat_map(move |layer| aspects().map(move |aspect| (mip, layer, aspect)));
    (0..mips).flat_map(of_mip)
}

impl State {
    /// Returns the initialised subresources of a render target or depth buffer. Returns `None` for other resources, for
    /// sparse textures, and on devices without this rule.
    fn initialized(&mut self, texture: u64) -> Option<&mut Vec<Part>> {
        let is_strict = self.profile.strict;
        let held = self.resources.get_mut(&texture)?;
        let is_target = matches!(&held.shape, Shape::Texture(desc) if desc.usage.intersects(TARGETS));
        (is_strict && is_target && held.pages.is_none()).then_some(&mut held.initialized)
    }

    pub(super) fn initialize(&mut self, texture: Texture, part: Part) {
        if let Some(held) = self.initialized(texture.0)
            && !held.contains(&part)
        {
            held.push(part);
        }
    }

    /// If the subresource of a target is not initialised, reports its use and returns `None`.
    pub(super) fn check_initialized(&mut self, texture: Texture, part: Part, label: &Label) -> Option<()> {
        match self.initialized(texture.0) {
            Some(held) if !held.contains(&part) => self.refuse(HazardKind::Misuse, label.clone(), UNDEFINED),
            _ => Some(()),
        }
    }

    /// If no subresource of a target is initialised, reports its use by a kernel through a descriptor, and returns
    /// `None`.
    pub(super) fn check_shown(&mut self, shown: &Access) -> Option<()> {
        let is_texture = shown.label.what == What::Texture;
        match self.initialized(shown.label.id) {
            Some(held) if is_texture && held.is_empty() => {
                self.refuse(HazardKind::Misuse, shown.label.clone(), UNDEFINED)
            }
            _ => Some(()),
        }
    }

    /// If an aliasing barrier activates a target, marks the target as not initialised.
    pub(super) fn note_activated(&mut self, barrier: Barrier) {
        if let Barrier::Aliasing { after: Resource::Texture(texture), .. } = barrier
            && let Some(held) = self.initialized(texture.0)
        {
            held.clear();
        }
    }

    /// Returns the step that fills a whole target with `value`, or if `value` is `None`, with poison. If the command is
    /// invalid, reports a hazard and returns `None`.
    pub(super) fn clear_step(&mut self, texture: Texture, value: Option<u8>, uses: &mut Uses) -> Option<Step> {
        let Placed { shape, memory, base, label, space_label } = self.placed(What::Texture, texture.0)?;
        let Shape::Texture(desc) = shape else { return None };
        if !desc.usage.intersects(TARGETS) {
            return self.refuse(
                HazardKind::Misuse,
                label,
                "a clear of a texture that is neither a render target nor a depth buffer",
            );
        }
        subresources(&desc).for_each(|part| self.initialize(texture, part));
        let size = self.resources.get(&texture.0)?.requirements.size;
        let access = Access { space: memory, range: base..base + size, writes: true, label, space_label };
        let step = Step::Fill { dst: Address::of(&access), size, value: value.unwrap_or(self.poison) };
        uses.push(access);
        Some(step)
    }
}
