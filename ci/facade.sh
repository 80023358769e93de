#!/usr/bin/env bash
# The drop-in for gpu-allocator: lints, its tests on Vulkan under validation, the features that wgpu asks for, and that the
# one line puts it under wgpu. What wgpu then does is compat/run.sh, which takes longer.
set -euo pipefail
cd "$(dirname "$0")/../compat/gpu-allocator"

export RINGFENCE_REQUIRE_VULKAN=1
cargo fmt --check
cargo clippy --all-targets --all-features -- -D warnings
cargo clippy --no-default-features -- -D warnings
cargo check --quiet --no-default-features --features hashbrown,vulkan,d3d12
cargo test --features mapped-slice
cd ../wgpu/patched
cargo tree --target all --invert gpu-allocator | tee /dev/stderr | grep '^gpu-allocator v0\.28.*compat/gpu-allocator' >/dev/null
