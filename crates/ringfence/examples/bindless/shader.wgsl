enable wgpu_binding_array;

// The host replaces SLOTS by the number of slots.

struct Words {
    data: array<u32>,
}

struct Draw {
    to: u32,
    sources: array<u32, 4>,
}

@group(0) @binding(1) var<storage, read_write> heap: binding_array<Words, SLOTS>;
var<immediate> draw: Draw;

@compute @workgroup_size(1)
fn run(@builtin(workgroup_id) id: vec3<u32>) {
    heap[draw.to].data[id.x] = heap[draw.sources[id.x]].data[0];
}
