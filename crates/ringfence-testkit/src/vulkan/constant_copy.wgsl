enable wgpu_binding_array;

// Copies the constants of the first slot to the words of another slot. The host replaces SLOTS by a number. An array of
// uniform buffers would test more, but Mesa's software driver (22 to 25) does not compile it.

struct Words {
    data: array<u32>,
}

// The size of the smallest slot of constants.
struct Constants {
    data: array<vec4<u32>, 16>,
}

struct Job {
    dst: u32,
    src: u32,
    words: u32,
    value: u32,
}

@group(0) @binding(0) var<uniform> constants: Constants;
@group(0) @binding(1) var<storage, read_write> heap: binding_array<Words, SLOTS>;
var<immediate> job: Job;

@compute @workgroup_size(64)
fn run(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= job.words {
        return;
    }
    heap[job.dst].data[id.x] = constants.data[id.x / 4u][id.x % 4u];
}
