#!/usr/bin/env python3
"""Finds import cycles among the files of crates: cycles.py [--most FILES] crates/NAME/src ...

Reads `use crate::`, `use self::`, `use super::` and child-module paths, follows re-exports to the file that defines a
name, and ignores tests (tests.rs, models.rs, `#[cfg(test)] mod`). Prints every strongly connected set of two or more
files. With --most, fails if one has more files than that. It reads text, not types.
"""
import collections
import os
import re
import sys

sys.setrecursionlimit(100_000)
TESTS = ("tests.rs", "models.rs")


def modules(root):
    """Module path ("memory::arena") to file."""
    found = {}
    for folder, _, names in os.walk(root):
        for name in (name for name in names if name.endswith(".rs") and name not in TESTS):
            path = os.path.join(folder, name)
            module = os.path.relpath(path, root)[:-3].replace(os.sep, "::").removesuffix("::mod")
            found["" if module in ("lib", "main") else module] = path
    return found


def leaves(tree):
    """`a::{b, c::{d, e}}` to [a::b, a::c::d, a::c::e]."""
    match = re.match(r"^([^{]*)\{(.*)\}$", tree.strip(), re.S)
    if not match:
        return [tree.split(" as ")[0].replace(" ", "")]
    parts, depth, part = [], 0, ""
    for character in match.group(2) + ",":
        depth += (character == "{") - (character == "}")
        if character == "," and depth == 0:
            parts.append(part)
            part = ""
        else:
            part += character
    prefix = match.group(1).strip().replace(" ", "")
    return [prefix + leaf for part in parts if part.strip() for leaf in leaves(part)]


def absolute(module, path, known):
    """A path as `module` writes it, from the crate's root; None if it leaves the crate."""
    parts, here = path.split("::"), module.split("::") if module else []
    if parts[0] == "crate":
        return parts[1:]
    if parts[0] == "self":
        return here + parts[1:]
    if parts[0] == "super":
        while parts and parts[0] == "super":
            here, parts = here[:-1], parts[1:]
        return here + parts
    return here + parts if "::".join(here + parts[:1]) in known else None


def imports(known):
    """For each module, the modules whose names it imports."""
    uses, exports = {}, collections.defaultdict(dict)
    for module, path in known.items():
        with open(path, encoding="utf-8") as file:
            text = re.sub(r"//[^\n]*", "", file.read())
        text = re.split(r"#\[cfg\((?:all\()?test[^\]]*\]\s*mod", text)[0]
        uses[module] = []
        for public, tree in re.findall(r"(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);", text):
            for leaf in leaves(re.sub(r"\s+", " ", tree)):
                target = absolute(module, leaf, known)
                if target and public:
                    exports[module][target[-1]] = target
                elif target:
                    uses[module].append(target)

    def defining(target, depth=0):
        head = list(target)
        while head and "::".join(head) not in known:
            head.pop()
        module, rest = "::".join(head), target[len(head):]
        if rest and depth < 6 and rest[0] in exports[module]:
            return defining(exports[module][rest[0]] + rest[1:], depth + 1)
        return module

    return {module: {defining(target) for target in targets} - {module} for module, targets in uses.items()}


def components(graph):
    """Strongly connected components (Tarjan 1972)."""
    index, low, stack, result = {}, {}, [], []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            found = []
            while not found or found[-1] != node:
                found.append(stack.pop())
            result.append(found)

    for node in graph:
        if node not in index:
            visit(node)
    return result


def main(arguments):
    most = None
    if arguments[:1] == ["--most"]:
        most, arguments = int(arguments[1]), arguments[2:]
    failed = False
    for root in arguments:
        known = modules(root)
        cycles = [found for found in components(imports(known)) if len(found) > 1]
        for found in sorted(cycles, key=len, reverse=True):
            too_large = most is not None and len(found) > most
            failed |= too_large
            names = ", ".join(sorted(module or "lib" for module in found))
            print(f"{root}: {'TOO LARGE: ' if too_large else ''}{len(found)} files: {names}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
