enable wgpu_binding_array;

// Reads one view of each dimension. The indices are constant, which needs no feature. The host replaces SLOTS by a
// number, and the bindings from 200 on by those of the device: on some devices all are equal, which WGSL cannot
// express.

struct Words {
    data: array<u32>,
}

@group(0) @binding(1) var<storage, read_write> results: binding_array<Words, SLOTS>;
@group(0) @binding(200) var flat: binding_array<texture_2d<f32>, SLOTS>;
@group(0) @binding(201) var layers: binding_array<texture_2d_array<f32>, SLOTS>;
@group(0) @binding(202) var cubes: binding_array<texture_cube<f32>, SLOTS>;
@group(0) @binding(203) var volumes: binding_array<texture_3d<f32>, SLOTS>;
@group(0) @binding(204) var rows: binding_array<texture_1d<f32>, SLOTS>; // beyond the usual
@group(0) @binding(205) var skies: binding_array<texture_cube_array<f32>, SLOTS>; // beyond the usual
@group(1) @binding(0) var samplers: binding_array<sampler, SAMPLERS>;

fn whole(level: f32) -> u32 {
    return u32(level * 255.0 + 0.5);
}

@compute @workgroup_size(1)
fn run() {
    results[0].data[0] = whole(textureLoad(flat[1], vec2<i32>(0, 0), 0).x);
    results[0].data[1] = whole(textureLoad(layers[2], vec2<i32>(0, 0), 1, 0).x);
    results[0].data[2] = whole(textureSampleLevel(cubes[3], samplers[0], vec3<f32>(1.0, 0.0, 0.0), 0.0).x);
    results[0].data[3] = whole(textureSampleLevel(cubes[3], samplers[0], vec3<f32>(0.0, 0.0, -1.0), 0.0).x);
    results[0].data[4] = whole(textureLoad(volumes[4], vec3<i32>(0, 0, 1), 0).x);
    results[0].data[5] = whole(textureLoad(layers[7], vec2<i32>(0, 0), 3, 0).x);
    results[0].data[6] = whole(textureLoad(rows[5], 0, 0).x); // beyond the usual
    results[0].data[7] = whole(textureSampleLevel(skies[6], samplers[0], vec3<f32>(0.0, 0.0, -1.0), 1, 0.0).x); // beyond the usual
}
