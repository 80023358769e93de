#!/usr/bin/env python3
"""Checks ARCHITECTURE.md against the folders. Every path in its tables exists. Every path in its map exists, and the map has every
crate. If the map names a part of a crate, it names all folders and files directly under its src (except lib.rs, main.rs and tests)."""
import os
import re
import sys


def listed(text):
    """Returns the paths of the first code block, by its indentation: `  ringfence-core/    description`."""
    block = text.split("```")[1].split("\n")[1:]
    stack, paths = [], set()
    for line in block:
        match = re.match(r"^( *)(\S.*?)(?:  +.*)?$", line)
        if not match:
            continue
        depth = len(match.group(1)) // 2
        del stack[depth:]
        for name in match.group(2).split():
            paths.add("/".join(stack + [name.rstrip("/")]))
        stack = stack[:depth] + [match.group(2).split()[0].rstrip("/")]
    return paths


def resolve(path):
    """Returns the candidates for `crates/x/room`: `crates/x/src/room` and `crates/x/src/room.rs`."""
    parts = path.split("/")
    if parts[0] != "crates" or len(parts) < 3:
        return [path]
    inner = "/".join(parts[:2] + ["src"] + parts[2:])
    return [inner, inner + ".rs"]


def main():
    with open("ARCHITECTURE.md", encoding="utf-8") as file:
        text = file.read()
    paths = listed(text)
    wrong = [f"{path}: in the map, not in the tree" for path in sorted(paths) if not any(map(os.path.exists, resolve(path)))]
    named = re.findall(r"`(crates/[^`]+)`", text) + [
        f"crates/ringfence-memory/src/{path}" for path in re.findall(r"`((?:memory|timeline|resource)/[a-z_/]+\.rs)`", text)
    ]
    wrong += [f"{path}: named, not in the tree" for path in sorted(set(named)) if not os.path.exists(path)]
    for crate in sorted(os.listdir("crates")):
        if f"crates/{crate}" not in paths:
            wrong.append(f"crates/{crate}: in the tree, not in the map")
            continue
        if not any(path.startswith(f"crates/{crate}/") for path in paths):
            continue
        for name in sorted(os.listdir(f"crates/{crate}/src")):
            stem = name.removesuffix(".rs")
            if name in ("lib.rs", "main.rs", "tests.rs", "models.rs"):
                continue
            if not paths & {f"crates/{crate}/{stem}", f"crates/{crate}/{stem}.rs"}:
                wrong.append(f"crates/{crate}/src/{name}: in the tree, not in the map")
    print("\n".join(wrong), end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
