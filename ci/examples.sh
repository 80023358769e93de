#!/usr/bin/env bash
# The examples run, and the page of a run that one of them recorded is made.
set -euo pipefail
cd "$(dirname "$0")/.."

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

cargo run --quiet -p ringfence --example simulated
cargo run --quiet -p ringfence --example streaming "$scratch/streaming.rft"
cargo run --quiet -p ringfence --example transient_frame "$scratch/frame.rft"
cargo run --quiet -p ringfence --example planned_frames
cargo run --quiet -p ringfence --features vulkan --example vulkan_buffer
cargo run --quiet -p ringfence --features vulkan --example bindless
# On Windows it does more: ci/windows.sh runs it there.
cargo run --quiet -p ringfence --features d3d12 --example d3d12_texture
cargo run --quiet -p ringfence-report --example large_page "$scratch" 20000
cargo run --quiet -- report "$scratch/streaming.rft" --output "$scratch/page.html" --svg "$scratch/figures"
cargo run --quiet -- report "$scratch/frame.rft" --svg "$scratch/figures"
test -s "$scratch/figures/plan-0.svg"
cargo run --quiet -- replay "$scratch/streaming.rft"
# With the feature alone: the tests of what it tells.
cargo test --quiet -p ringfence --features tracing --test telling
