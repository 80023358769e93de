#!/usr/bin/env bash
# wgpu on Ringfence: measures everything in README.md here, from scratch. About twenty minutes on two cores, mostly for
# building wgpu four times; not part of the ordinary test run.
#
#   compat/run.sh [--rounds N] [--no-windows]
set -euo pipefail
cd "$(dirname "$0")/.."

rounds=5 windows=1
while [ $# -gt 0 ]; do
    case $1 in
    --rounds) rounds=$2; shift 2 ;;
    --no-windows) windows=0; shift ;;
    *) echo "$1: expected --rounds N or --no-windows" >&2; exit 1 ;;
    esac
done
bash ci/packages.sh

out=$(mktemp -d)
export XDG_RUNTIME_DIR="$out/runtime"
mkdir -m 700 "$XDG_RUNTIME_DIR"
target="$PWD/compat/target"

# Runs both programs in turns and compares their output: `in_turns NAME ROUNDS PROGRAM ARGUMENTS…`. The program of each side is
# `PROGRAM-plain` or `PROGRAM-patched`.
in_turns() {
    local name=$1 turns=$2 program=$3 side round file
    shift 3
    : >"$out/$name.figures"
    for round in $(seq "$turns"); do
        for side in plain patched; do
            ${runner:-} "$program-$side${suffix:-}" "$out/$name-$side" "$@" | sed "s/^figure/$side/" >>"$out/$name.figures"
        done
        for file in "$out/$name-plain"/*.bin; do
            cmp "$file" "$out/$name-patched/$(basename "$file")"
        done
    done
    echo "$name: $turns rounds, the same bytes each time:" "$(cd "$out/$name-plain" && echo *.bin)"
    table "$out/$name.figures"
}

# Prints the least of the rounds, side by side.
table() {
    awk '$5 != "" && $1 ~ /^(plain|patched)$/ {
        key = $2 " " $3 " " $5
        if (!(key in seen)) { seen[key] = 1; order[++count] = key }
        if (!(($1, key) in least) || $4 < least[$1, key]) least[$1, key] = $4
    }
    END {
        printf "%-10s %-16s %-6s %16s %16s\n", "program", "figure", "unit", "gpu-allocator", "Ringfence"
        for (at = 1; at <= count; at++) {
            split(order[at], part, " ")
            printf "%-10s %-16s %-6s %16d %16d\n", part[1], part[2], part[3], least["plain", order[at]], least["patched", order[at]]
        }
    }' "$1"
}

echo "== wgpu on Vulkan, with gpu-allocator and with Ringfence"
for side in plain patched; do
    (cd "compat/wgpu/$side" && CARGO_TARGET_DIR="$target" cargo build --release)
    cp "$target/release/wgpu-programs" "$out/programs-$side"
done
in_turns vulkan "$rounds" "$out/programs"
in_turns vulkan-memory-hints "$rounds" "$out/programs" --only stress --hints memory

echo "== the same on Ringfence with validation layers"
# Without shaders: validation layers older than wgpu do not support all of its SPIR-V.
WGPU_VALIDATION=1 "$out/programs-patched" "$out/validated" --only copies --only stress --resources 2000 >/dev/null

echo "== the allocators alone"
(cd compat/allocators && cargo run --release -- "$rounds")

echo "== gpu-allocator's own examples, unchanged, on Ringfence"
theirs=$(cd compat/wgpu/plain && cargo metadata --format-version 1 |
    grep -o '"manifest_path":"[^"]*/gpu-allocator-0\.28[^"]*"' | cut -d'"' -f4 | xargs dirname)
mkdir -p "$out/examples/src"
cat >"$out/examples/Cargo.toml" <<END
[workspace]
[package]
name = "examples"
edition = "2021"
[[bin]]
name = "vulkan-buffer"
path = "$theirs/examples/vulkan-buffer.rs"
[[bin]]
name = "d3d12-buffer-winrs"
path = "$theirs/examples/d3d12-buffer-winrs.rs"
[target.'cfg(windows)'.dependencies]
windows = { version = "0.62", features = ["Win32_Graphics_Direct3D", "Win32_Graphics_Direct3D12", "Win32_Graphics_Dxgi_Common"] }
[dependencies]
gpu-allocator = "0.28"
ash = { version = "0.38", default-features = false, features = ["debug", "loaded"] }
log = "0.4"
env_logger = "0.11"
[patch.crates-io]
gpu-allocator = { path = "$PWD/compat/gpu-allocator" }
END
(cd "$out/examples" && CARGO_TARGET_DIR="$target" RUST_LOG=info cargo run --bin vulkan-buffer)

if [ "$windows" = 0 ]; then
    rm -rf "$out"
    exit 0
fi

echo "== wgpu on Direct3D 12 under Wine, as far as that device goes"
source ci/windows-env.sh
source ci/wine-env.sh
install_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}"
export CARGO_TARGET_DIR="$PWD/compat/target-windows"
for side in plain patched; do
    (cd "compat/wgpu/$side" && windows_cargo build --release)
    cp "$CARGO_TARGET_DIR/x86_64-pc-windows-gnu/release/wgpu-programs.exe" "$out/programs-$side.exe"
done
start_display
make_prefix
# Wine's shader compiler does not support HLSL: without shaders, and without wgpu's own ones.
export WGPU_VALIDATION_INDIRECT_CALL=0
runner=wine suffix=.exe
in_turns windows "$rounds" "$out/programs" --device wine --only copies --only stress --resources 5000
in_turns windows-memory-hints "$rounds" "$out/programs" --device wine --only stress --resources 5000 --hints memory
echo "Shaders are refused with either allocator:"
for side in plain patched; do
    { wine "$out/programs-$side.exe" "$out/refused" --device wine --only compute 2>&1 || true; } | grep -o -m1 'FXC D3DCompile error.*'
done

echo "== gpu-allocator's own example for Direct3D 12, unchanged, on Ringfence under Wine"
(cd "$out/examples" && RUST_LOG=info windows_cargo run --bin d3d12-buffer-winrs)
rm -rf "$out"
