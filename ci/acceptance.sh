#!/usr/bin/env bash
# docs/acceptance.md tells the truth: each test that it names exists, and each test named after a row is on the page.
set -euo pipefail
cd "$(dirname "$0")/.."

pattern='(seed|fault)_[0-9]+_[0-9a-z_]+'
named=$(grep -oE "\`$pattern\`" docs/acceptance.md | tr -d '\`' | sort -u)
written=$(grep -rhoE "fn $pattern" crates | cut -c4- | sort -u)
if ! difference=$(diff <(echo "$named") <(echo "$written")); then
    echo "docs/acceptance.md (<) and the tests (>) differ:"
    echo "$difference"
    exit 1
fi
