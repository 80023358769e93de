#!/usr/bin/env bash
# Runs the demo as users do: on Vulkan with validation (also synchronization), on every simulated profile, and without a
# driver. Two runs of one seed must be equal to the byte.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo build --release
ringfence=target/release/ringfence
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

"$ringfence" demo --device vulkan --validation --frames 200 --image "$scratch/vulkan.png" --report "$scratch/vulkan.html"
for profile in h200 lavapipe d3d12-tier1 d3d12-modern non-coherent; do
    "$ringfence" demo --device "sim:$profile" --frames 200 --seed 7 >"$scratch/first"
    "$ringfence" demo --device "sim:$profile" --frames 200 --seed 7 >"$scratch/second"
    cmp "$scratch/first" "$scratch/second"
    "$ringfence" demo --device "sim:$profile" --frames 200 --seed 8 >"$scratch/other"
    ! cmp --silent "$scratch/first" "$scratch/other"
done
# Without a driver the default run falls back to the simulated device.
VK_DRIVER_FILES=/nonexistent VK_ICD_FILENAMES=/nonexistent "$ringfence" demo --frames 50
"$ringfence" devices
