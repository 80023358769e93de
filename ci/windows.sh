#!/usr/bin/env bash
# The Direct3D 12 backend for real, on Linux: builds for Windows and runs the device tests under Wine. A device that is
# missing is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/windows-env.sh
source ci/wine-env.sh

install_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}"
features=(--no-default-features --features d3d12)
windows_cargo test --no-run -p ringfence-harness "${features[@]}"
windows_cargo test --no-run -p ringfence --features d3d12 --lib

start_display
make_prefix
export RINGFENCE_REQUIRE_D3D12=1
windows_cargo test -p ringfence --features d3d12 --lib
# The examples of the README and of the documentation.
windows_cargo test -p ringfence --features d3d12 --doc
windows_cargo test -p ringfence-harness "${features[@]}"
windows_cargo run -p ringfence --features d3d12 --example d3d12_texture
# The drop-in for gpu-allocator.
(cd compat/gpu-allocator && windows_cargo test --no-default-features --features std,d3d12)
# The demo: copies where Vulkan has its shader, every byte checked.
windows_cargo run -p ringfence-cli "${features[@]}" -- demo --device d3d12 --frames 100
