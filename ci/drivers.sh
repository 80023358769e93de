#!/usr/bin/env bash
# Every suite on every driver, and one table of it all. None of them needs a GPU. A driver that cannot be had fails its
# column, and the others still run.
#
#   sim              the simulated profiles
#   mesa-22          Debian 12's software driver and its layers (core and synchronization)
#   mesa-25-…        Debian 13's, and its layers; once for each way in which a device can keep descriptors
#   swiftshader      Chromium's software driver, with Debian 12's layers
#   wine-8, wine-10  Direct3D 12 of Debian 12 and of Debian 13
#
#   ci/drivers.sh [COLUMN …]
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/suites.sh

all=(sim mesa-22 mesa-25-buffers mesa-25-update-after-bind mesa-25-plain-sets mesa-25-placeholders swiftshader wine-8 wine-10)
[ $# -gt 0 ] && columns=("$@") || columns=("${all[@]}")
rm -rf "$results"
mkdir -p "$results/programs"

build_linux() {
    # As ci/test.sh builds them: once for both.
    cargo test --workspace --no-run --message-format=json-render-diagnostics | test_programs >"$results/programs/linux"
    cargo build --quiet --workspace --example descriptors
}

build_windows() (
    source ci/windows-env.sh
    install_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}"
    windows_cargo test --no-run --message-format=json-render-diagnostics "${WINDOWS_PACKAGES[@]}" "${WINDOWS_TESTS[@]}" |
        test_programs >"$results/programs/windows"
)

# program SYSTEM NAME: the path of a test program.
program() { awk -v name="$2" '$1 == name { print $2; found = 1 } END { exit !found }' "$results/programs/$1"; }

linux_program() { program linux "$1"; }

# direct3d COLUMN COMMAND …
direct3d() {
    local column=$1
    shift
    "$@" bash ci/wine-suites.sh "$column" "device_suite=$(program windows device_suite)" \
        "backend=$(program windows d3d12_backend)" "steady_state=$(program windows steady_state)"
}

run_column() {
    local column=$1 icd
    export RINGFENCE_REQUIRE_VULKAN=1 RINGFENCE_REQUIRE_D3D12=1
    case $column in
    sim)
        run_suite sim device_suite "$(program linux device_suite)" sim::
        run_suite sim steady_state "$(program linux steady_state)" simulated
        run_suite sim faults "$(program linux faults)" --skip vulkan
        ;;
    mesa-22)
        icd=$(ls /usr/share/vulkan/icd.d/lvp_icd*.json)
        vulkan_suites mesa-22 env RINGFENCE_REQUIRE_VALIDATION=1 VK_DRIVER_FILES="$icd" VK_ICD_FILENAMES="$icd"
        ;;
    mesa-25-*)
        local model=${column#mesa-25-}
        local inside=(bash ci/in-debian13.sh env RINGFENCE_REQUIRE_VALIDATION=1 XDG_RUNTIME_DIR=/tmp
            VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json RINGFENCE_DESCRIPTORS="$model")
        # The driver has what the column is for.
        "${inside[@]}" "$PWD/${CARGO_TARGET_DIR:-target}/debug/examples/descriptors" >"$results/programs/$model.txt"
        [ "$model" != buffers ] || grep 'model: Buffers' "$results/programs/$model.txt"
        vulkan_suites "$column" "${inside[@]}"
        ;;
    swiftshader)
        icd=/usr/lib/chromium/vk_swiftshader_icd.json
        [ -e "$icd" ] || { echo "no $icd: Debian's chromium brings it" >&2; return 1; }
        vulkan_suites swiftshader env RINGFENCE_REQUIRE_VALIDATION=1 VK_DRIVER_FILES="$icd" VK_ICD_FILENAMES="$icd"
        ;;
    wine-8) direct3d wine-8 ;;
    wine-10) direct3d wine-10 bash ci/in-debian13.sh ;;
    *)
        echo "no column $column; there are ${all[*]}" >&2
        return 1
        ;;
    esac
}

bash ci/packages.sh
wanted=" ${columns[*]} "
case $wanted in *" sim "* | *" mesa"* | *" swiftshader "*) build_linux ;; esac
case $wanted in *" wine"*) build_windows ;; esac
case $wanted in *" mesa-25"* | *" wine-10 "*) bash ci/debian13.sh || true ;; esac
for column in "${columns[@]}"; do
    echo "-- $column"
    # In a shell of its own, where the first failure ends the column and nothing else.
    set +e
    (set -e; run_column "$column")
    set -e
done
table "${columns[@]}"
