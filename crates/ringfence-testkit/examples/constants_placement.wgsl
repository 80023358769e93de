// Every thread of both entry points folds a whole slot, so that no read is optimized away, and stores the fold at the
// index in the slot's first word.
@group(0) @binding(0) var<uniform> slot: array<vec4<u32>, 16>;
@group(0) @binding(1) var<storage, read_write> results: array<u32>;
@group(0) @binding(2) var<storage, read> slots: array<array<vec4<u32>, 16>>;

fn folded(fold: u32, part: vec4<u32>) -> u32 {
    return fold * 31u + (part.x ^ part.y ^ part.z ^ part.w);
}

fn leave(thread: u32, at: u32, fold: u32) {
    // The second condition is almost never true. It makes every thread compute its fold.
    if thread == 0u || fold == 0x9e3779b9u {
        results[at] = fold;
    }
}

// A draw with its own slot.
@compute @workgroup_size(64)
fn draw(@builtin(global_invocation_id) id: vec3<u32>) {
    var fold = 0u;
    for (var index = 0u; index < 16u; index++) {
        fold = folded(fold, slot[index]);
    }
    leave(id.x, slot[0].x, fold);
}

// One draw of all objects: each group reads the slot of its instance.
@compute @workgroup_size(64)
fn instances(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_id) id: vec3<u32>) {
    var fold = 0u;
    for (var index = 0u; index < 16u; index++) {
        fold = folded(fold, slots[group.x][index]);
    }
    leave(id.x, slots[group.x][0].x, fold);
}
