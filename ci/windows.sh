#!/usr/bin/env bash
# The Direct3D 12 backend on Linux: lints it, builds it for Windows and runs its tests under Wine, except the device suites, which
# ci/drivers.sh runs. A missing device is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/windows-env.sh
source ci/wine-env.sh

install_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}"
built="$CARGO_TARGET_DIR/x86_64-pc-windows-gnu/debug"
# On this target the macro hides from the lint that the initializers are already const.
windows_cargo clippy --quiet "${WINDOWS_PACKAGES[@]}" "${WINDOWS_TESTS[@]}" --example d3d12_texture -- \
    -D warnings -A clippy::missing_const_for_thread_local
windows_cargo test --no-run "${WINDOWS_PACKAGES[@]}" "${WINDOWS_TESTS[@]}"
windows_cargo build "${WINDOWS_PACKAGES[@]}" --bin ringfence --example d3d12_texture

start_display
make_prefix
export RINGFENCE_REQUIRE_D3D12=1
windows_cargo test "${WINDOWS_PACKAGES[@]}" --lib
# The examples of the README and of the documentation.
windows_cargo test "${WINDOWS_PACKAGES[@]}" --doc
wine "$built/examples/d3d12_texture.exe"
# The drop-in for gpu-allocator.
(cd compat/gpu-allocator && windows_cargo test --no-default-features --features std,d3d12)
# The demo: uses copies instead of Vulkan's shader, and checks every byte.
wine "$built/ringfence.exe" demo --device d3d12 --frames 100
