# Sourced by the scripts that build for Windows: Debian's packages, and the environment of a build.
#
#   rustc-web, cargo-web, rust-web-src   a Rust that can build its standard library for Windows from source
#   rust-web-clippy                      its lints
#   gcc-mingw-w64-x86-64                 the linker
#   wine, xvfb, mesa-vulkan-drivers      Direct3D 12 without Windows: vkd3d over Mesa's software Vulkan

source "$(dirname "${BASH_SOURCE[0]}")/install.sh"

BUILD_PACKAGES=(rustc-web cargo-web rust-web-src rust-web-clippy gcc-mingw-w64-x86-64)
RUN_PACKAGES=(wine wine64 xvfb mesa-vulkan-drivers libvulkan1)

# Packages and features of the suites: one set for all, so each package is built once.
WINDOWS_PACKAGES=(-p ringfence -p ringfence-d3d12 -p ringfence-testkit -p ringfence-cli --no-default-features --features d3d12)
WINDOWS_TESTS=(--lib --test devices)

# The machine's own toolchain may precede Debian's in the path.
export PATH="/usr/bin:$PATH"
export RUSTC=/usr/bin/rustc
export RUSTC_BOOTSTRAP=1 # for -Zbuild-std
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_LINKER=x86_64-w64-mingw32-gcc
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine
export CARGO_TARGET_DIR="$PWD/target-windows"
# Backtraces under Wine have no line numbers; without debug information the linker takes half the time.
export CARGO_PROFILE_DEV_DEBUG=false
unset RUSTC_WRAPPER RUSTC_WORKSPACE_WRAPPER RUSTUP_TOOLCHAIN

# cargo for Windows: `windows_cargo check -p …`
windows_cargo() {
    local command=$1
    shift
    cargo "$command" -Zbuild-std --target x86_64-pc-windows-gnu "$@"
}
