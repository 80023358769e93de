// A draw that reads one slot of constants: every thread folds all of it, so that nothing of it is left out.
@group(0) @binding(0) var<uniform> slot: array<vec4<u32>, 16>;
@group(0) @binding(1) var<storage, read_write> results: array<u32>;

@compute @workgroup_size(64)
fn draw(@builtin(global_invocation_id) id: vec3<u32>) {
    var fold = 0u;
    for (var index = 0u; index < 16u; index++) {
        let part = slot[index];
        fold = fold * 31u + (part.x ^ part.y ^ part.z ^ part.w);
    }
    results[id.x] = fold;
}
