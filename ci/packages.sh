#!/usr/bin/env bash
# Installs the packages that the tests need: Mesa's software Vulkan driver, the validation layers, and a browser for the report,
# which contains a second software driver.
set -euo pipefail
cd "$(dirname "$0")/.."
source ci/install.sh

install_packages mesa-vulkan-drivers libvulkan1 vulkan-validationlayers chromium build-essential
