#!/usr/bin/env bash
# Runs the examples, and writes the page of a trace that one of them recorded.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/install.sh
install_packages glslang-tools

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# The same build as in ci/test.sh, so it is done once.
cargo build --quiet --workspace --bins --examples
built="${CARGO_TARGET_DIR:-target}/debug"
"$built/examples/simulated"
"$built/examples/streaming" "$scratch/streaming.rft"
"$built/examples/transient_frame" "$scratch/frame.rft"
"$built/examples/planned_frames"
"$built/examples/vulkan_buffer"
"$built/examples/bindless"
# With the shader in GLSL.
glslangValidator -V -e run --source-entrypoint main crates/ringfence/examples/bindless/shader.comp -o "$scratch/shader.spv"
"$built/examples/bindless" "$scratch/shader.spv"
# On Windows it does more; ci/windows.sh runs it there.
"$built/examples/d3d12_texture"
"$built/examples/large_page" "$scratch" 20000
"$built/ringfence" report "$scratch/streaming.rft" --output "$scratch/page.html" --svg "$scratch/figures"
"$built/ringfence" report "$scratch/frame.rft" --svg "$scratch/figures"
test -s "$scratch/figures/plan-0.svg"
"$built/ringfence" replay "$scratch/streaming.rft"
