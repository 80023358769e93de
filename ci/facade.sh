#!/usr/bin/env bash
# The drop-in for gpu-allocator: lints, its tests on Vulkan under validation, and a check that the one line under [patch] makes
# wgpu use it. compat/run.sh runs wgpu on it, which takes longer.
#
#   ci/facade.sh [--full]      also with the features that wgpu selects, and without features
set -euo pipefail
cd "$(dirname "$0")/../compat/gpu-allocator"

export RINGFENCE_REQUIRE_VULKAN=1
cargo fmt --check
cargo clippy --all-targets --all-features -- -D warnings
if [ "${1:-}" = --full ]; then
    cargo clippy --no-default-features -- -D warnings
    cargo check --quiet --no-default-features --features hashbrown,vulkan,d3d12
fi
cargo test --all-features
cd ../wgpu/patched
cargo tree --target all --invert gpu-allocator | tee /dev/stderr | grep '^gpu-allocator v0\.28.*compat/gpu-allocator' >/dev/null
