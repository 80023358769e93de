#!/usr/bin/env bash
# Runs every suite on every driver and prints one table. No driver needs a GPU. A driver that cannot be installed fails its
# column; the other columns still run.
#
#   sim              the simulated profiles
#   mesa-22          Debian 12's software driver and its layers (core and synchronization)
#   mesa-25-…        Debian 13's, and its layers; once for each way of keeping descriptors
#   swiftshader      Chromium's software driver, with Debian 12's layers
#   wine-8, wine-10  Direct3D 12 of Debian 12 and of Debian 13
#
#   ci/drivers.sh [--smoke] [--after-test] [COLUMN …]
#
# --smoke: three of the four mesa-25 columns and wine-8 run only a part of their suites (`vulkan_smoke` and `d3d12_smoke` in
# suites.sh; docs/reliability.md lists the omissions). --after-test: the columns sim and mesa-22 are taken from the run of
# ci/test.sh just before.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/suites.sh

all=(sim mesa-22 mesa-25-buffers mesa-25-update-after-bind mesa-25-plain-sets mesa-25-placeholders swiftshader wine-8 wine-10)
smoke="" after_test=""
columns=()
for argument in "$@"; do
    case $argument in
    --smoke) smoke=1 ;;
    --after-test) after_test=1 ;;
    *) columns+=("$argument") ;;
    esac
done
[ "${#columns[@]}" -gt 0 ] || columns=("${all[@]}")
[ -n "$after_test" ] || rm -rf "$results"
mkdir -p "$results/programs"

build_linux() {
    # The same build as in ci/test.sh, so it is done once.
    cargo test --workspace --no-run --message-format=json-render-diagnostics | test_program >"$results/programs/linux"
    cargo build --quiet --workspace --example descriptors
}

build_windows() (
    source ci/windows-env.sh
    install_packages "${BUILD_PACKAGES[@]}" "${RUN_PACKAGES[@]}"
    windows_cargo test --no-run --message-format=json-render-diagnostics "${WINDOWS_PACKAGES[@]}" "${WINDOWS_TESTS[@]}" |
        test_program >"$results/programs/windows"
)

# program SYSTEM: the path of the test program.
program() { grep . "$results/programs/$1"; }

run_column() {
    local column=$1 icd
    export RINGFENCE_REQUIRE_VULKAN=1 RINGFENCE_REQUIRE_D3D12=1
    case $column in
    sim)
        [ -z "$after_test" ] || return 0
        run_suite sim device_suite "$(program linux)" device_suite::sim::
        run_suite sim steady_state "$(program linux)" steady_state::a_steady_frame_makes_no_driver_object_on_the_simulated
        run_suite sim faults "$(program linux)" faults:: --skip vulkan
        ;;
    mesa-22)
        [ -z "$after_test" ] || return 0
        icd=$(ls /usr/share/vulkan/icd.d/lvp_icd*.json)
        vulkan_suites mesa-22 "$(program linux)" \
            env RINGFENCE_REQUIRE_VALIDATION=1 VK_DRIVER_FILES="$icd" VK_ICD_FILENAMES="$icd"
        ;;
    mesa-25-*)
        local model=${column#mesa-25-} part=vulkan_suites
        local inside=(bash ci/in-debian13.sh env RINGFENCE_REQUIRE_VALIDATION=1 XDG_RUNTIME_DIR=/tmp
            VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json RINGFENCE_DESCRIPTORS="$model")
        # Checks that the driver has the column's feature.
        "${inside[@]}" "$PWD/${CARGO_TARGET_DIR:-target}/debug/examples/descriptors" >"$results/programs/$model.txt"
        [ "$model" != buffers ] || grep 'model: Buffers' "$results/programs/$model.txt"
        [ -z "$smoke" ] || [ "$model" = buffers ] || part=vulkan_smoke
        $part "$column" "$(program linux)" "${inside[@]}"
        ;;
    swiftshader)
        icd=/usr/lib/chromium/vk_swiftshader_icd.json
        [ -e "$icd" ] || { echo "no $icd: it is part of Debian's package chromium" >&2; return 1; }
        vulkan_suites swiftshader "$(program linux)" \
            env RINGFENCE_REQUIRE_VALIDATION=1 VK_DRIVER_FILES="$icd" VK_ICD_FILENAMES="$icd"
        ;;
    wine-8) bash ci/wine-suites.sh "${smoke:+--smoke}" wine-8 "$(program windows)" ;;
    wine-10) bash ci/in-debian13.sh bash ci/wine-suites.sh "" wine-10 "$(program windows)" ;;
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
    begun=$SECONDS
    # In a subshell: the first failure ends only this column.
    set +e
    (set -e; run_column "$column")
    set -e
    echo "-- $column: $((SECONDS - begun)) s"
done
table "${columns[@]}"
