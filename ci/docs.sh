#!/usr/bin/env bash
# The documentation builds without a broken link.
set -euo pipefail
cd "$(dirname "$0")/.."

RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps
