enable wgpu_binding_array;

// Goes through bindless indices: fills what one slot shows, or copies from what another shows. SLOTS is put in by the host.

struct Words {
    data: array<u32>,
}

struct Job {
    dst: u32,
    // The same slot for a fill: compilers may read a descriptor before they know that it is not needed, so it is a real one.
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
