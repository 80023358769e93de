#!/usr/bin/env bash
# The Direct3D 12 backend for real, on Linux: builds for Windows and runs the device tests under Wine. A device that is
# missing is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/windows-env.sh
source ci/wine-env.sh

install_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}"
# One set of packages and features for all: what is built is built once.
packages=(-p ringfence -p ringfence-harness -p ringfence-cli --no-default-features --features d3d12)
built="$CARGO_TARGET_DIR/x86_64-pc-windows-gnu/debug"
tests=(--lib --test d3d12_backend --test device_suite --test steady_state)
windows_cargo test --no-run "${packages[@]}" "${tests[@]}"
windows_cargo build "${packages[@]}" --bin ringfence --example d3d12_texture

start_display
make_prefix
export RINGFENCE_REQUIRE_D3D12=1
windows_cargo test "${packages[@]}" --lib --test d3d12_backend --test steady_state
# The simulated devices are the same on every system: ci/test.sh has them.
windows_cargo test "${packages[@]}" --test device_suite d3d12::
# The examples of the README and of the documentation.
windows_cargo test "${packages[@]}" --doc
wine "$built/examples/d3d12_texture.exe"
# The drop-in for gpu-allocator.
(cd compat/gpu-allocator && windows_cargo test --no-default-features --features std,d3d12)
# The demo: copies where Vulkan has its shader, every byte checked.
wine "$built/ringfence.exe" demo --device d3d12 --frames 100
