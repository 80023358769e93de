enable wgpu_binding_array;

struct Draw {
    model: mat4x4<f32>,
    colour: vec4<f32>,
    // Roughness, metallic, repeats of the texture.
    look: vec4<f32>,
}

struct Frame {
    camera_proj: mat4x4<f32>,
    camera_inverse: mat4x4<f32>,
    sun_proj: mat4x4<f32>,
    // Position, and the last mip of the sky.
    camera: vec4<f32>,
    // Direction, and the side of a texel of the shadow map in metres.
    sun: vec4<f32>,
    draws: array<Draw>,
}

// Slots in the heap. On devices where shaders cannot compute the index of a texture, the program writes the numbers of
// the textures into the shader.
struct Push {
    frame: u32,
    albedo: u32,
    normal: u32,
    floor: u32,
    sky: u32,
    grading: u32,
}

@group(0) @binding(0) var<storage, read> frames: binding_array<Frame, RESOURCES>;
@group(0) @binding(1) var pictures: binding_array<texture_2d<f32>, RESOURCES>;
@group(0) @binding(2) var cubes: binding_array<texture_cube<f32>, RESOURCES>;
@group(0) @binding(3) var volumes: binding_array<texture_3d<f32>, RESOURCES>;
@group(1) @binding(0) var samplers: binding_array<sampler, SAMPLERS>;
@group(1) @binding(1) var comparing: binding_array<sampler_comparison, SAMPLERS>;
// Targets of earlier passes.
@group(2) @binding(0) var shadows: texture_depth_2d;
@group(2) @binding(1) var first: texture_2d<f32>;
@group(2) @binding(2) var second: texture_2d<f32>;
var<immediate> push: Push;

fn sky_light(towards: vec3<f32>, mip: f32) -> vec3<f32> {
    return textureSampleLevel(cubes[SKY], samplers[CLAMPED], towards, mip).rgb;
}

struct Corner {
    @builtin(position) position: vec4<f32>,
    @location(0) at: vec2<f32>,
}

// One triangle that covers the target, at the far plane.
@vertex
fn cover(@builtin(vertex_index) number: u32) -> Corner {
    let at = vec2<f32>(f32((number << 1u) & 2u), f32(number & 2u));
    return Corner(vec4<f32>(at.x * 2.0 - 1.0, 1.0 - at.y * 2.0, 1.0, 1.0), at);
}
