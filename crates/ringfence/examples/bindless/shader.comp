// A copy of shader.wgsl in GLSL. glslangValidator -V -e run --source-entrypoint main shader.comp -o shader.spv
#version 450

// Number of slots of the heap. The host specializes this constant.
layout(constant_id = 0) const uint SLOTS = 1;

layout(set = 0, binding = 1) buffer Words {
    uint data[];
} heap[SLOTS];

layout(push_constant) uniform Draw {
    uint to;
    uint sources[4];
} draw;

layout(local_size_x = 1) in;

void main() {
    uint id = gl_WorkGroupID.x;
    heap[draw.to].data[id] = heap[draw.sources[id]].data[0];
}
