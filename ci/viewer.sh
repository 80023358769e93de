#!/usr/bin/env bash
# Builds the viewer, and runs its tests: pictures without a window, under the validation layers. ci/full.sh also builds its window.
set -euo pipefail
cd "$(dirname "$0")/.."
bash ci/packages.sh

export RINGFENCE_REQUIRE_VULKAN=1
target="${CARGO_TARGET_DIR:-$PWD/target}/viewer"
cargo test --quiet --locked --manifest-path examples/viewer/Cargo.toml --target-dir "$target"
[ "${1:-}" != --whole ] || cargo build --quiet --locked --manifest-path examples/viewer/Cargo.toml --target-dir "$target" --features window
