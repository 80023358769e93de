# Sourced by the scripts that run Windows programs, after windows-env.sh. Their programs end with them.

scratch=$(mktemp -d)
xvfb_pid=
cleanup() {
    WINEPREFIX="$scratch/wine" wineserver -k >/dev/null 2>&1 || true
    if [ -n "$xvfb_pid" ]; then
        kill "$xvfb_pid" 2>/dev/null || true
        wait "$xvfb_pid" 2>/dev/null || true
    fi
    rm -rf "$scratch"
}
trap cleanup EXIT

# Wine's Vulkan needs a display; the X server chooses a free number and prints it.
start_display() {
    Xvfb -displayfd 3 -screen 0 640x480x24 -nolisten tcp 3>"$scratch/display" >/dev/null 2>&1 &
    xvfb_pid=$!
    for _ in $(seq 100); do
        if [ -s "$scratch/display" ]; then
            DISPLAY=":$(cat "$scratch/display")"
            export DISPLAY
            return
        fi
        sleep 0.1
    done
    echo "Xvfb did not start" >&2
    return 1
}

# A new Wine prefix, with the DLL that Rust's standard library needs and older Wine versions lack.
make_prefix() {
    export WINEPREFIX="$scratch/wine" WINEDEBUG=-all WINEDLLOVERRIDES="mscoree,mshtml="
    export XDG_RUNTIME_DIR="$scratch/runtime"
    mkdir -m 700 "$XDG_RUNTIME_DIR"
    wineboot --init >/dev/null 2>&1
    local dll="$WINEPREFIX/drive_c/windows/system32/bcryptprimitives.dll"
    [ -e "$dll" ] || x86_64-w64-mingw32-gcc -O2 -shared -o "$dll" ci/bcryptprimitives.c -ladvapi32
}
