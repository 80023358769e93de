use std::error::Error;

use ringfence::descriptor::{BindlessEntry, View};
use ringfence::device::descriptors::{TextureView, TextureViewKind, ViewLayout};
use ringfence::vulkan::{BindlessTable, Device, Texture};

/// Inserts a texture into the table, or replaces the texture of an entry. Returns the slot that shaders index.
pub fn bindless_texture(
    table: &BindlessTable,
    entry: &mut Option<BindlessEntry<Device>>,
    texture: &Texture,
) -> Result<u32, Box<dyn Error>> {
    let desc = texture.desc().ok_or("the texture has no portable description")?;
    let view = TextureView::new(TextureViewKind::Sampled, 0..desc.mips, 0..desc.layers).layout(ViewLayout::ReadOnly);
    let view = View::texture(texture, view)?;
    let entry = match entry {
        Some(entry) => {
            entry.replace(&view)?;
            entry
        }
        None => entry.insert(table.insert(&view)?),
    };
    Ok(entry.slot())
}
