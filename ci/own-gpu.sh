#!/usr/bin/env bash
# Packs the Vulkan suites for a GPU: the test programs and the validation layers of Debian 13, in a folder that runs on any Linux
# machine with this kind of processor, a Vulkan driver and loader. There its `run.sh` prints the same table as ci/drivers.sh.
#
#   ci/own-gpu.sh [FOLDER]      packs; target/own-gpu by default
#   FOLDER/run.sh [COLUMN]      runs there; the column is named gpu by default
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/suites.sh

folder="${1:-target/own-gpu}"
bash ci/packages.sh
bash ci/debian13.sh
rm -rf "$folder"
mkdir -p "$folder/programs" "$folder/layers"
program=$(cargo test --workspace --no-run --message-format=json-render-diagnostics | test_program)
strip --strip-debug -o "$folder/programs/devices" "$program"
debian13="${RINGFENCE_DEBIAN13:-target/debian13}"
cp "$debian13/usr/lib/x86_64-linux-gnu/libVkLayer_khronos_validation.so" "$folder/layers/"
# Relative to the library, because the folder may be moved.
sed 's|"library_path": *"[^"]*"|"library_path": "./libVkLayer_khronos_validation.so"|' \
    "$debian13/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json" >"$folder/layers/VkLayer_khronos_validation.json"
cp ci/suites.sh "$folder/"
cat >"$folder/run.sh" <<'END'
#!/usr/bin/env bash
# The Vulkan suites on this machine's GPU, packed by ci/own-gpu.sh of Ringfence.
set -euo pipefail
cd "$(dirname "$0")"
export RINGFENCE_RESULTS="$PWD/results" VK_LAYER_PATH="$PWD/layers"
export RINGFENCE_REQUIRE_VULKAN=1 RINGFENCE_REQUIRE_VALIDATION=1
source ./suites.sh
rm -rf results
mkdir results
vulkan_suites "${1:-gpu}" "$PWD/programs/devices"
table "${1:-gpu}"
END
chmod +x "$folder/run.sh"
du -sh "$folder"
