#!/usr/bin/env bash
# The README's test command, with every device that can be had required: a missing one is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

export RINGFENCE_REQUIRE_VULKAN=1 RINGFENCE_REQUIRE_BROWSER=1
# Whatever fails, the rest still runs.
cargo test --workspace --no-fail-fast
