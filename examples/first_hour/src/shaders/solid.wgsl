enable wgpu_binding_array;

struct Draw {
    model: mat4x4<f32>,
    colour: vec4<f32>,
}

struct Frame {
    camera: mat4x4<f32>,
    draws: array<Draw>,
}

struct Push {
    frame: u32,
}

// One slot for each frame in flight. The program sets the length of the array.
@group(0) @binding(0) var<storage, read> frames: binding_array<Frame, 1>;
var<immediate> push: Push;

struct Corner {
    @builtin(position) position: vec4<f32>,
    @location(0) colour: vec3<f32>,
}

@vertex
fn place(
    @builtin(instance_index) number: u32,
    @location(0) position: vec3<f32>,
    @location(1) normal: vec3<f32>,
    @location(2) at: vec2<f32>,
) -> Corner {
    let model = frames[push.frame].draws[number].model;
    let world = model * vec4<f32>(position, 1.0);
    let facing = normalize((model * vec4<f32>(normal, 0.0)).xyz);
    let colour = frames[push.frame].draws[number].colour.rgb * (0.6 + 0.4 * facing.y);
    return Corner(frames[push.frame].camera * world, colour);
}

@fragment
fn shade(corner: Corner) -> @location(0) vec4<f32> {
    return vec4<f32>(corner.colour, 1.0);
}
