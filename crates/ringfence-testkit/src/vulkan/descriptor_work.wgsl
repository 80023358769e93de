enable wgpu_binding_array;

// Accesses buffers through bindless indices: fills the words of one slot, or copies the words of another slot. The host
// replaces SLOTS by a number.

struct Words {
    data: array<u32>,
}

struct Job {
    dst: u32,
    // For a fill, the same slot as `dst`: compilers may read a descriptor even if it is not needed, so it must be a
    // valid one.
    src: u32,
    words: u32,
    value: u32,
}

@group(0) @binding(1) var<storage, read_write> heap: binding_array<Words, SLOTS>;
var<immediate> job: Job;

@compute @workgroup_size(64)
fn run(@builtin(global_invocation_id) id: vec3<u32>) {
    if id.x >= job.words {
        return;
    }
    var word = job.value;
    if job.src != job.dst {
        word = heap[job.src].data[id.x];
    }
    heap[job.dst].data[id.x] = word;
}
