// Draws discs with one invocation per texel. The last disc that covers the texel gives the colour. All arithmetic uses
// integers, so that the result equals `draw_reference` bit for bit.

struct Disc {
    x: i32,
    y: i32,
    radius: i32,
    // Red in the lowest byte.
    colour: u32,
}

struct Frame {
    width: u32,
    height: u32,
    disc_count: u32,
    background: u32,
}

@group(0) @binding(0) var<storage, read> discs: array<Disc>;
@group(0) @binding(1) var image: texture_storage_2d<rgba8unorm, write>;
var<immediate> frame: Frame;

@compute @workgroup_size(8, 8)
fn draw(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= frame.width || id.y >= frame.height {
        return;
    }
    let texel = vec2<i32>(id.xy);
    var colour = frame.background;
    // Backwards, because the last disc wins.
    for (var left = frame.disc_count; left > 0u; left--) {
        let disc = discs[left - 1u];
        let away = texel - vec2<i32>(disc.x, disc.y);
        if disc.radius >= 0 && away.x * away.x + away.y * away.y <= disc.radius * disc.radius {
            colour = disc.colour;
            break;
        }
    }
    textureStore(image, texel, unpack4x8unorm(colour));
}
