fn sampled(source: texture_2d<f32>, at: vec2<f32>) -> vec3<f32> {
    return textureSampleLevel(source, samplers[CLAMPED], at, 0.0).rgb;
}

// The mean of a square of 4 x 4 texels, by four samples between texels.
fn square(source: texture_2d<f32>, at: vec2<f32>) -> vec3<f32> {
    let side = 1.0 / vec2<f32>(textureDimensions(source));
    let upper = sampled(source, at + vec2<f32>(-1.0, -1.0) * side) + sampled(source, at + vec2<f32>(1.0, -1.0) * side);
    let lower = sampled(source, at + vec2<f32>(-1.0, 1.0) * side) + sampled(source, at + vec2<f32>(1.0, 1.0) * side);
    return (upper + lower) * 0.25;
}

// The bright part of the picture, at half the size.
@fragment
fn bright(corner: Corner) -> @location(0) vec4<f32> {
    let light = square(first, corner.at);
    let most = max(light.r, max(light.g, light.b));
    return vec4<f32>(min(light * max(most - 1.1, 0.0) / max(most, 0.001), vec3<f32>(12.0)), 1.0);
}

@fragment
fn smaller(corner: Corner) -> @location(0) vec4<f32> {
    return vec4<f32>(square(first, corner.at), 1.0);
}

// A level of the bloom and the blurred smaller level.
@fragment
fn larger(corner: Corner) -> @location(0) vec4<f32> {
    let side = 1.0 / vec2<f32>(textureDimensions(second));
    var sum = vec3<f32>(0.0);
    for (var number = 0; number < 9; number++) {
        let away = vec2<f32>(f32(number % 3 - 1), f32(number / 3 - 1));
        let weight = (2.0 - abs(away.x)) * (2.0 - abs(away.y)) / 16.0;
        sum += sampled(second, corner.at + away * side) * weight;
    }
    return vec4<f32>(sampled(first, corner.at) + sum, 1.0);
}

// Light to colours: the curve of Narkowicz, then the volume of the grading.
@fragment
fn tone(corner: Corner) -> @location(0) vec4<f32> {
    let middle = corner.at - 0.5;
    let light = (sampled(first, corner.at) + sampled(second, corner.at) * 0.08) * 0.6 * (1.0 - dot(middle, middle) * 0.5);
    let mapped = light * (2.51 * light + 0.03) / (light * (2.43 * light + 0.59) + 0.14);
    let colour = pow(clamp(mapped, vec3<f32>(0.0), vec3<f32>(1.0)), vec3<f32>(1.0 / 2.2));
    let count = f32(textureDimensions(volumes[GRADING]).x);
    let at = colour * (count - 1.0) / count + 0.5 / count;
    let graded = textureSampleLevel(volumes[GRADING], samplers[CLAMPED], at, 0.0).rgb;
    return vec4<f32>(graded, 1.0);
}
