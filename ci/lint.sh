#!/usr/bin/env bash
# Format and lints, warnings denied; with all features and with none.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
cargo clippy --workspace --all-targets --all-features -- -D warnings
cargo clippy -p ringfence-vulkan -p ringfence -p ringfence-testkit -p ringfence-cli --no-default-features -- -D warnings
