# Sourced by scripts that need Debian's packages.

# install_packages PACKAGE …: installs the packages that are missing.
install_packages() {
    local missing=() package
    for package in "$@"; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
    done
    [ "${#missing[@]}" -eq 0 ] && return
    local as_root=()
    [ "$(id -u)" -eq 0 ] || as_root=(sudo)
    mkdir -p target
    # One installation at a time: ci/prefetch.sh runs beside other steps.
    (
        flock --timeout 900 9 || true
        "${as_root[@]}" apt-get update -q
        "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${missing[@]}"
    ) 9>target/packages.lock
}
