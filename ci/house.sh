#!/usr/bin/env bash
# Checks the structure: dependencies between the crates, their sizes, import cycles, the map of ARCHITECTURE.md, names in texts,
# the steps of .github/workflows/ci.yml, and words that the project avoids.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0
fail() {
    echo "house: $*" >&2
    failed=1
}

# knows CRATE ALLOWED …: the crates of this workspace that a crate may depend on. Cargo refuses imports that are not in the
# manifest; this refuses a new line in the manifest.
knows() {
    local crate="$1" allowed=" ${*:2} " folder="crates/$1" found
    [ "$crate" != ringfence-planner ] || folder=planner
    for found in $(sed -n '/^\[dependencies\]/,/^\[\(dev-dependencies\|lints\|\[example\)/p' "$folder/Cargo.toml" |
        grep -oE '^ringfence[a-z0-9-]*' | sort -u); do
        [[ $allowed == *" $found "* ]] || fail "$crate may not know $found"
    done
}
knows ringfence-core
knows ringfence-lockfree ringfence-core
knows ringfence-alias ringfence-core
knows ringfence-planner ringfence-core ringfence-alias
knows ringfence-hal
knows ringfence-trace
knows ringfence-sim ringfence-core ringfence-hal
knows ringfence-vulkan ringfence-hal
knows ringfence-d3d12 ringfence-hal
knows ringfence-observe ringfence-lockfree ringfence-hal ringfence-trace
knows ringfence-timeline ringfence-core ringfence-lockfree ringfence-hal ringfence-trace
knows ringfence-decision ringfence-core ringfence-hal ringfence-observe
knows ringfence-arena ringfence-core ringfence-lockfree ringfence-hal ringfence-trace ringfence-observe ringfence-timeline \
    ringfence-decision
knows ringfence-memory ringfence-arena ringfence-core ringfence-lockfree ringfence-hal ringfence-trace ringfence-observe ringfence-timeline \
    ringfence-decision
knows ringfence-sparse ringfence-hal ringfence-memory
knows ringfence-upload ringfence-core ringfence-lockfree ringfence-hal ringfence-memory
knows ringfence-descriptor ringfence-core ringfence-lockfree ringfence-hal ringfence-memory ringfence-upload \
    ringfence-vulkan ringfence-d3d12
knows ringfence-transient ringfence-core ringfence-alias ringfence-hal ringfence-memory ringfence-vulkan ringfence-d3d12
knows ringfence-commands ringfence-core ringfence-hal ringfence-memory ringfence-upload
knows ringfence-contents ringfence-core ringfence-hal ringfence-memory ringfence-upload
knows ringfence-paging ringfence-core ringfence-hal ringfence-memory ringfence-commands
knows ringfence-placement ringfence-core ringfence-hal ringfence-memory ringfence-upload ringfence-transient
knows ringfence ringfence-core ringfence-lockfree ringfence-alias ringfence-hal ringfence-trace ringfence-memory \
    ringfence-sparse ringfence-upload ringfence-descriptor ringfence-transient ringfence-placement ringfence-contents \
    ringfence-commands ringfence-paging ringfence-sim ringfence-vulkan ringfence-d3d12
if cargo tree --quiet -p ringfence --features vulkan --edges normal --prefix none | grep -E '^ringfence-(sim|d3d12) '; then
    fail "the feature vulkan compiles a simulator or Direct3D"
fi

# Without unit tests.
for crate in crates/* planner; do
    lines=$(find "$crate/src" -name '*.rs' ! -name tests.rs ! -name models.rs -print0 | xargs -0 cat | wc -l)
    printf '%7d  %s\n' "$lines" "$crate"
    # A crate of the library keeps room for the next feature; the test kit has tests for all of them.
    cap=12000
    [ "$crate" != crates/ringfence-testkit ] || cap=15000
    [ "$lines" -le "$cap" ] || fail "$crate has $lines lines, more than $cap"
done

python3 ci/cycles.py --most 4 crates/*/src planner/src || fail "an import cycle has more than 4 files"
python3 ci/map.py || fail "the map of ARCHITECTURE.md does not match the tree"
# ci/row-mutants.sh runs the planted faults, by hand; this only checks that each still matches the sources.
bash ci/row-mutants.sh check || fail "a planted fault does not match the sources"
python3 ci/package-paths.py || fail "a package is incomplete"
# shellcheck disable=SC2046
python3 ci/prose.py crates planner docs bench compat fuzz $(git ls-files '*.md' | grep -v /) || fail "the prose has habits that make a reader read twice"
python3 ci/mentions.py || fail "a text names an item that does not exist"
# `packages` runs once a job.
diff <(sed -n 's/^steps=(\(.*\))$/\1/p' .ci/run | tr ' ' '\n' | sort) \
    <(sed -nE 's/^ +(- )?run: bash ci\/([a-z-]+)\.sh( .*)?$/\2/p' .github/workflows/ci.yml | sort -u) ||
    fail ".github/workflows/ci.yml lacks (<) or adds (>) a step of .ci/run"

if git ls-files .github crates planner compat docs README.md ARCHITECTURE.md DESIGN.md COMPARE.md CHANGELOG.md CONTRIBUTING.md \
    SECURITY.md |
    grep -vE '\.(png|svg|lock|csv|json|rft|spv|bin)$|/(LICENSE-[A-Z]+|guide)$' | xargs grep -niwE -f ci/words.txt; then
    fail "words to avoid (ci/words.txt)"
fi
# Parts of identifiers too, except in tests named after a row of docs/acceptance.md.
identifiers() {
    git ls-files crates planner compat | grep '\.rs$' | xargs grep -ohE '\b[A-Za-z0-9]+(_[A-Za-z0-9]+)+\b|\b([A-Z][a-z0-9]+){2,}\b' |
        grep -vE '^(seed|fault)_[0-9]' | sort -u | sed -E 's/_/ /g; s/([a-z0-9])([A-Z])/\1 \2/g'
}
if identifiers | grep -iwE -f ci/words.txt; then
    fail "identifiers with words to avoid (ci/words.txt)"
fi
[ "$failed" -eq 0 ]
