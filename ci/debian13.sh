#!/usr/bin/env bash
# Installs Debian 13 in a folder, for its newer programs: Mesa's software Vulkan driver, the validation layers, Wine. The host
# system is not changed, and nothing is compiled there. Needs root, two minutes and about 2 GB. ci/in-debian13.sh runs programs
# in the folder.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/install.sh

root="${RINGFENCE_DEBIAN13:-$PWD/target/debian13}"
mkdir -p "$(dirname "$root")"
# Waits for ci/prefetch.sh, if that is at work on the folder.
exec 8>"$root.lock"
flock --timeout 900 8 || true
[ -e "$root/whole" ] && exit
install_packages debootstrap
rm -rf "$root"
mkdir -p "$root"
log="$root.log"
trap 'code=$?; [ "$code" -eq 0 ] || tail -n 20 "$log" >&2' EXIT

# From the archive that this system uses.
archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep '/debian/*$' | sort -u | head -n 1)
debootstrap --variant=minbase --include=mesa-vulkan-drivers,vulkan-validationlayers,libvulkan1 trixie "$root" \
    ${archive:+"$archive"} >"$log" 2>&1
# The network configuration of this system.
cp /etc/resolv.conf "$root/etc/"
cp -r /etc/apt/apt.conf.d/. "$root/etc/apt/apt.conf.d/"
chroot "$root" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -q -y --no-install-recommends wine wine64 xvfb >>"$log" 2>&1
chroot "$root" apt-get clean
touch "$root/whole"
