#!/usr/bin/env bash
# Counts the instructions of the hot paths under callgrind, and fails if one has grown by more than a few per cent since it
# was recorded in ci/callgrind.txt. Unlike a time, a count is the same on a busy machine.
#
#   ci/callgrind.sh            compares
#   ci/callgrind.sh --record   writes the current counts to ci/callgrind.txt
set -euo pipefail
cd "$(dirname "$0")/.."

command -v valgrind >/dev/null || {
    as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    "${as_root[@]}" apt-get update -q
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends valgrind
}

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
# The features are those of the command, so ci/demo.sh has built the libraries already.
cargo build --quiet --release -p ringfence-cli -p ringfence --example hot_paths --example allocator_paths --example frame_loop
# Each path is one function that performs 20,000 operations, or 400,000 if single runs differ by a few thousand; its callees
# count too.
count() {
    local example=$1
    valgrind --tool=callgrind --callgrind-out-file="$scratch/out" \
        "${CARGO_TARGET_DIR:-target}/release/examples/$example" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
    callgrind_annotate --inclusive=yes --threshold=100 "$scratch/out" | awk -v example="$example" '
        match($0, example "::[a-z_]+") {
            path = substr($0, RSTART, RLENGTH); sub(/.*::/, "", path); count = $1; gsub(",", "", count)
            if (path != "main" && path != "with" && !(path in seen)) {
                seen[path] = 1; printf "%s %.1f\n", path, count / (path == "blocks_of_tlsf" ? 400000 : 20000)
            }
        }'
}
count hot_paths >"$scratch/all"
count allocator_paths >>"$scratch/all"
# The frame of a renderer is counted without the simulated device, which is three quarters of it.
frame() {
    valgrind --tool=callgrind --toggle-collect='frame_loop::a_frame*' --callgrind-out-file="$scratch/out" \
        "${CARGO_TARGET_DIR:-target}/release/examples/frame_loop" >"$scratch/log" 2>&1 || { cat "$scratch/log"; exit 1; }
    callgrind_annotate --inclusive=yes --threshold=100 "$scratch/out" | awk '
        { count = $1; gsub(",", "", count) }
        /PROGRAM TOTALS/ { all = count }
        /ringfence_sim::Device::with / { device = count }
        END { printf "frame_of_a_renderer %.1f\n", (all - device) / 200 }'
}
frame >>"$scratch/all"
# Other names in callgrind's output, for instance `new`, are not paths of this list.
grep -vE '^(new|play|free|needs|allocator) ' "$scratch/all" | sort >"$scratch/counts"

compiler=$(rustc --version | cut -d' ' -f1-2)
if [ "${1:-}" = --record ]; then
    { echo "# Instructions an operation, by path: written by ci/callgrind.sh --record with $compiler, $(uname -m)."
      cat "$scratch/counts"; } >ci/callgrind.txt
fi

# Another compiler generates other code: up to a fifth more is accepted then.
limit=1.03
grep -qF "with $compiler, $(uname -m)" ci/callgrind.txt || limit=1.2
awk -v limit="$limit" '
    FNR == NR { if ($1 != "#") recorded[$1] = $2; next }
    {
        known = $1 in recorded
        grown = known && $2 > recorded[$1] * limit
        note = !known ? "not recorded" : grown ? "GROWN" : $2 * limit < recorded[$1] ? "less: record it" : ""
        printf "%-28s %8.1f  recorded %8.1f  %s\n", $1, $2, recorded[$1], note
        if (grown || !known) bad = 1
        delete recorded[$1]
    }
    END {
        for (path in recorded) { print path " is recorded but was not run"; bad = 1 }
        exit bad
    }' ci/callgrind.txt "$scratch/counts"
