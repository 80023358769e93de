#!/usr/bin/env bash
# Builds the workspace of the examples (the viewer, the steps of the guide's chapter "First hour", the recipes of "Cookbook"), and
# runs its tests: pictures without a window, under the validation layers. ci/full.sh also builds the viewer's window.
set -euo pipefail
cd "$(dirname "$0")/.."
bash ci/packages.sh

export RINGFENCE_REQUIRE_VULKAN=1
target="${CARGO_TARGET_DIR:-$PWD/target}/viewer"
cargo test --quiet --locked --manifest-path examples/Cargo.toml --workspace --target-dir "$target"
[ "${1:-}" != --whole ] || cargo build --quiet --locked --manifest-path examples/Cargo.toml --target-dir "$target" -p ringfence-viewer --features window
