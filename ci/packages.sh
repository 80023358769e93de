#!/usr/bin/env bash
# Installs what the tests need: Mesa's software Vulkan driver, the validation layers, and a browser for the report.
set -euo pipefail

packages=(mesa-vulkan-drivers libvulkan1 vulkan-validationlayers chromium build-essential)
missing=()
for package in "${packages[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ "${#missing[@]}" -eq 0 ] && exit 0

as_root=()
[ "$(id -u)" -eq 0 ] || as_root=(sudo)
"${as_root[@]}" apt-get update -q
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
