enable wgpu_binding_array;

struct Draw {
    model: mat4x4<f32>,
    // Colour, and how often the texture is repeated.
    look: vec4<f32>,
}

struct Frame {
    camera: mat4x4<f32>,
    // Direction towards the light.
    light: vec4<f32>,
    draws: array<Draw>,
}

struct Push {
    frame: u32,
    texture: u32,
}

// The program sets the lengths of the arrays, and replaces TEXTURE and SAMPLER by indices.
@group(0) @binding(0) var<storage, read> frames: binding_array<Frame, 1>;
@group(0) @binding(1) var textures: binding_array<texture_2d<f32>, 1>;
@group(1) @binding(0) var samplers: binding_array<sampler, 1>;
var<immediate> push: Push;

struct Corner {
    @builtin(position) position: vec4<f32>,
    @location(0) normal: vec3<f32>,
    @location(1) at: vec2<f32>,
    @location(2) colour: vec3<f32>,
}

@vertex
fn place(
    @builtin(instance_index) number: u32,
    @location(0) position: vec3<f32>,
    @location(1) normal: vec3<f32>,
    @location(2) at: vec2<f32>,
) -> Corner {
    let model = frames[push.frame].draws[number].model;
    let look = frames[push.frame].draws[number].look;
    let world = model * vec4<f32>(position, 1.0);
    let facing = (model * vec4<f32>(normal, 0.0)).xyz;
    return Corner(frames[push.frame].camera * world, facing, at * look.w, look.rgb);
}

@fragment
fn shade(corner: Corner) -> @location(0) vec4<f32> {
    let albedo = textureSample(textures[TEXTURE], samplers[SAMPLER], corner.at).rgb * corner.colour;
    let light = max(dot(normalize(corner.normal), frames[push.frame].light.xyz), 0.0);
    return vec4<f32>(albedo * (0.2 + 0.8 * light), 1.0);
}
