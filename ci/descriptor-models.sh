#!/usr/bin/env bash
# The device tests on Vulkan once for each way in which a device can keep descriptors: bytes in buffers
# (VK_EXT_descriptor_buffer), sets that are written while they are bound, plain sets with null descriptors and with
# placeholders. Debian 12's own software driver has the last two alone, so a newer one is taken from Debian's backports, into
# a folder of its own: nothing is installed.
set -euo pipefail
cd "$(dirname "$0")/.."

target="${CARGO_TARGET_DIR:-$PWD/target}"
mesa="$target/mesa"
descriptors="$target/debug/examples/descriptors"

has_descriptor_buffers() {
    RINGFENCE_REQUIRE_VULKAN=1 RINGFENCE_DESCRIPTORS=buffers "$descriptors" | grep 'model: Buffers' >/dev/null
}

# apt with lists of its own, for one archive.
apt_backports() {
    local tool=$1
    shift
    "$tool" -q -o Dir::Etc::SourceList="$mesa/sources.list" -o Dir::Etc::SourceParts=- -o Dir::State::Lists="$mesa/lists" \
        -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= "$@"
}

fetch_mesa() {
    mkdir -p "$mesa/lists/partial" "$mesa/packages"
    # From the archive that this machine uses anyway.
    local archive codename
    archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | sort -u | grep -v security | head -n 1)
    codename=$(. /etc/os-release && echo "$VERSION_CODENAME")
    echo "deb $archive $codename-backports main" >"$mesa/sources.list"
    apt_backports apt-get update
    (cd "$mesa/packages" && apt_backports apt-get download mesa-vulkan-drivers libdrm2)
    local package
    for package in "$mesa"/packages/*.deb; do dpkg -x "$package" "$mesa/root"; done
    rm -r "$mesa/packages" "$mesa/lists"
    local libraries="$mesa/root/usr/lib/x86_64-linux-gnu"
    printf '{ "file_format_version": "1.0.0", "ICD": { "api_version": "1.4.305", "library_path": "%s" } }\n' \
        "$libraries/libvulkan_lvp.so" >"$mesa/icd.json"
}

# As ci/test.sh builds them: once for both.
cargo build --quiet --workspace --example descriptors
if ! has_descriptor_buffers; then
    [ -e "$mesa/icd.json" ] || fetch_mesa
    export LD_LIBRARY_PATH="$mesa/root/usr/lib/x86_64-linux-gnu${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export VK_ICD_FILENAMES="$mesa/icd.json"
    has_descriptor_buffers || { echo "no software driver with descriptor buffers" >&2; exit 1; }
fi

"$descriptors"
for model in buffers update-after-bind plain-sets placeholders; do
    echo "descriptors as $model"
    RINGFENCE_REQUIRE_VULKAN=1 RINGFENCE_DESCRIPTORS=$model cargo test --quiet --workspace --test device_suite vulkan::
done
