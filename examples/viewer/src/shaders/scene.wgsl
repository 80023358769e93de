struct Vertex {
    @location(0) position: vec3<f32>,
    @location(1) normal: vec3<f32>,
    @location(2) tangent: vec4<f32>,
    @location(3) uv: vec2<f32>,
}

struct Surface {
    @builtin(position) position: vec4<f32>,
    @location(0) world: vec3<f32>,
    @location(1) normal: vec3<f32>,
    @location(2) tangent: vec4<f32>,
    @location(3) uv: vec2<f32>,
    @location(4) @interpolate(flat) colour: vec3<f32>,
    @location(5) @interpolate(flat) look: vec2<f32>,
}

// Draws the depth as seen from the sun.
@vertex
fn shadow(@location(0) at: vec3<f32>, @builtin(instance_index) number: u32) -> @builtin(position) vec4<f32> {
    let model = frames[push.frame].draws[number].model;
    return frames[push.frame].sun_proj * model * vec4<f32>(at, 1.0);
}

@vertex
fn place(vertex: Vertex, @builtin(instance_index) number: u32) -> Surface {
    let model = frames[push.frame].draws[number].model;
    let look = frames[push.frame].draws[number].look;
    let world = model * vec4<f32>(vertex.position, 1.0);
    // The columns are orthogonal, so the inverse transpose divides each by its squared length.
    let squares = vec3<f32>(dot(model[0], model[0]), dot(model[1], model[1]), dot(model[2], model[2]));
    let normal = model * vec4<f32>(vertex.normal / squares, 0.0);
    let tangent = model * vec4<f32>(vertex.tangent.xyz, 0.0);
    var surface: Surface;
    surface.position = frames[push.frame].camera_proj * world;
    surface.world = world.xyz;
    surface.normal = normal.xyz;
    surface.tangent = vec4<f32>(tangent.xyz, vertex.tangent.w);
    surface.uv = vertex.uv * look.z;
    surface.colour = frames[push.frame].draws[number].colour.rgb;
    surface.look = look.xy;
    return surface;
}

// The light of the sun.
const SUN = vec3<f32>(7.4, 6.3, 4.8);

// The part of the sun that reaches a point, from 0 to 1.
fn sunlit(world: vec3<f32>, normal: vec3<f32>) -> f32 {
    let moved = world + normal * frames[push.frame].sun.w * 1.8;
    let clip = frames[push.frame].sun_proj * vec4<f32>(moved, 1.0);
    let at = vec2<f32>(clip.x * 0.5 + 0.5, 0.5 - clip.y * 0.5);
    let side = 1.0 / f32(textureDimensions(shadows).x);
    var sum = 0.0;
    for (var number = 0; number < 9; number++) {
        let away = vec2<f32>(f32(number % 3 - 1), f32(number / 3 - 1)) * side * 1.3;
        sum += textureSampleCompareLevel(shadows, comparing[COMPARING], at + away, clip.z - 0.0006);
    }
    let inside = all(at > vec2<f32>(0.0)) && all(at < vec2<f32>(1.0)) && clip.z < 1.0;
    return select(1.0, sum / 9.0, inside);
}

// The normal with the detail of the normal map.
fn detailed(surface: Surface) -> vec3<f32> {
    let normal = normalize(surface.normal);
    let tangent = normalize(surface.tangent.xyz - normal * dot(normal, surface.tangent.xyz));
    let other = cross(normal, tangent) * surface.tangent.w;
    let bend = textureSample(pictures[NORMAL], samplers[SMOOTH], surface.uv).xy * 2.0 - 1.0;
    let up = sqrt(max(1.0 - dot(bend, bend), 0.0));
    return normalize(tangent * bend.x + other * bend.y + normal * up);
}

// The reflected part of the sky for a roughness and an angle: an approximation of the table of Karis.
fn reflected(base: vec3<f32>, roughness: f32, facing: f32) -> vec3<f32> {
    let c0 = vec4<f32>(-1.0, -0.0275, -0.572, 0.022);
    let c1 = vec4<f32>(1.0, 0.0425, 1.04, -0.04);
    let r = roughness * c0 + c1;
    let a = min(r.x * r.x, exp2(-9.28 * facing)) * r.x + r.y;
    let scale = vec2<f32>(-1.04, 1.04) * a + r.zw;
    return base * scale.x + scale.y;
}

// The sun's highlight and its diffuse light, for a roughness.
fn sun_on(normal: vec3<f32>, view: vec3<f32>, base: vec3<f32>, diffuse: vec3<f32>, roughness: f32) -> vec3<f32> {
    let sun = frames[push.frame].sun.xyz;
    let half = normalize(sun + view);
    let facing = max(dot(normal, sun), 0.0);
    let square = pow(max(roughness, 0.06), 4.0);
    let near = dot(normal, half) * dot(normal, half) * (square - 1.0) + 1.0;
    let spread = square / (3.14159 * near * near);
    let k = (roughness + 1.0) * (roughness + 1.0) / 8.0;
    let seen = 1.0 / (4.0 * mix(facing, 1.0, k) * mix(max(dot(normal, view), 0.0), 1.0, k));
    let fresnel = base + (1.0 - base) * pow(1.0 - max(dot(half, view), 0.0), 5.0);
    return (diffuse / 3.14159 + fresnel * min(spread * seen, 60.0)) * facing;
}

// The light of the floor or of the sky that a surface reflects. The floor is the plane y = 0.
fn mirrored(surface: Surface, bounce: vec3<f32>, roughness: f32) -> vec3<f32> {
    let above = sky_light(bounce, roughness * frames[push.frame].camera.w);
    let steep = max(-bounce.y, 0.001);
    let distance = max(surface.world.y, 0.0) / steep;
    let hit = surface.world + bounce * distance;
    // A rough or far reflection is the mean of many tiles.
    let mip = 2.0 + roughness * 7.0 + log2(1.0 + distance * (0.2 + roughness) / steep);
    // Not the anisotropic sampler: neighbouring pixels reflect distant points, and Mesa 22.3 visits every texel between.
    let tiles = textureSampleLevel(pictures[FLOOR], samplers[REPEATED], vec2<f32>(hit.x, -hit.z) * 0.5, mip).rgb;
    let clip = frames[push.frame].sun_proj * vec4<f32>(hit, 1.0);
    let at = vec2<f32>(clip.x * 0.5 + 0.5, 0.5 - clip.y * 0.5);
    let seen = textureSampleCompareLevel(shadows, comparing[COMPARING], at, clip.z - 0.002);
    let floor = tiles * (vec3<f32>(0.5, 0.47, 0.44) + SUN * frames[push.frame].sun.y * seen / 3.14159);
    let near = exp(-pow(distance * 0.02, 2.0)) * smoothstep(0.0, 0.05 + roughness * 0.3, -bounce.y);
    return mix(above, floor, near);
}

@fragment
fn shade(surface: Surface) -> @location(0) vec4<f32> {
    let away = frames[push.frame].camera.xyz - surface.world;
    let view = normalize(away);
    let normal = detailed(surface);
    let albedo = textureSample(pictures[ALBEDO], samplers[SMOOTH], surface.uv).rgb * surface.colour;
    let roughness = surface.look.x;
    let metallic = surface.look.y;
    let base = mix(vec3<f32>(0.04), albedo, metallic);
    let diffuse = albedo * (1.0 - metallic);

    let last = frames[push.frame].camera.w;
    let bounce = reflect(-view, normal);
    let mirror = mirrored(surface, bounce, roughness);
    let around = sky_light(normal, last);
    let facing = max(dot(normal, view), 0.0);
    // Reflections towards the inside of a bumpy surface are dark.
    let open = clamp(1.0 + dot(bounce, normalize(surface.normal)) * 2.0, 0.0, 1.0);
    // Half of the diffuse light comes from the place itself, which is warmer than the sky.
    let ambient = mix(around, vec3<f32>(0.46, 0.41, 0.35), 0.45);
    var light = ambient * diffuse * 0.85 + mirror * reflected(base, roughness, facing) * open;
    light += sun_on(normal, view, base, diffuse, roughness) * SUN * sunlit(surface.world, normalize(surface.normal));

    let distance = length(away);
    let haze = 1.0 - exp(-pow(distance * 0.018, 2.0));
    let horizon = sky_light(normalize(vec3<f32>(-view.x, 0.05, -view.z)), 2.0);
    return vec4<f32>(mix(light, horizon, haze), 1.0);
}

@fragment
fn sky(corner: Corner) -> @location(0) vec4<f32> {
    let clip = vec4<f32>(corner.at.x * 2.0 - 1.0, 1.0 - corner.at.y * 2.0, 1.0, 1.0);
    let far = frames[push.frame].camera_inverse * clip;
    return vec4<f32>(sky_light(normalize(far.xyz / far.w - frames[push.frame].camera.xyz), 0.0), 1.0);
}
