#!/usr/bin/env bash
# The documentation builds without a broken link, and shows the public items that are listed.
set -euo pipefail
cd "$(dirname "$0")/.."

RUSTDOCFLAGS="-D warnings" cargo doc --workspace --all-features --no-deps
# The public items of `ringfence` are those of the list, each with one path.
python3 ci/public-items.py "${CARGO_TARGET_DIR:-target}/doc"
