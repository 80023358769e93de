#!/usr/bin/env bash
# Checks docs/acceptance.md: each test and each path that it names exists, and each test named after a row is on the page. Checks
# that the functions, files and scripts in docs/reliability.md and SECURITY.md exist, and the number of loom models.
set -euo pipefail
cd "$(dirname "$0")/.."

pattern='(seed|fault)_[0-9]+_[0-9a-z_]+'
named=$(grep -oE "\`$pattern\`" docs/acceptance.md | tr -d '\`' | sort -u)
written=$(grep -rhoE "fn $pattern" crates planner | cut -c4- | sort -u)
if ! difference=$(diff <(echo "$named") <(echo "$written")); then
    echo "docs/acceptance.md (<) and the tests (>) differ:"
    echo "$difference"
    exit 1
fi

python3 ci/places.py

for page in docs/reliability.md SECURITY.md; do
    for name in $(grep -oE '`[a-z0-9]+(_[a-z0-9]+)+`' "$page" | tr -d '`' | sort -u); do
        grep -rqE "fn $name\b|name = \"$name\"" crates planner fuzz/Cargo.toml && continue
        echo "$page names the function $name, which does not exist"
        exit 1
    done
    for file in $(grep -oE '[a-z0-9_/-]+\.(rs|sh)\b' "$page" | sed 's#^/*##' | sort -u); do
        [ -n "$(git ls-files "$file" "*/$file")" ] && continue
        echo "$page names the file $file, which does not exist"
        exit 1
    done
done
models=$(git ls-files 'crates/*.rs' | xargs awk 'FNR == 1 { on = FILENAME ~ /(models|tests\/loom)\.rs$/ }
    /^#\[cfg\(all\(test, loom\)\)\]$/ { on = 1 } on && /^ *#\[test\]$/ { count++ } END { print count }')
if ! grep -q "| $models models" docs/reliability.md; then
    echo "docs/reliability.md: expected $models models"
    exit 1
fi
