#!/usr/bin/env python3
"""Lists the public items of the crate `ringfence` as rustdoc shows them, one a line, and compares the list with
docs/public-items.txt. Fails if an item was added or removed, or if it has more than one path outside the backend modules.

    ci/public-items.py DOC_FOLDER [--write]
"""
import collections
import re
import sys
from pathlib import Path

LIST = Path(__file__).parent.parent / "docs/public-items.txt"
# These have an alias of each type of the front page.
BACKENDS = ("vulkan::", "d3d12::", "sim::")
SECTION = re.compile(r'<h3 id="([a-z-]+)">.*?(?=<h3|$)', re.S)


def items(page):
    """Yields the kind and the path of each item of an `all.html`."""
    for section in SECTION.finditer(page):
        kind = section.group(1)
        for path in re.findall(r'<li><a href="[^"]+">([^<]+)</a>', section.group(0)):
            yield kind, path


def main():
    found = sorted(items(Path(sys.argv[1], "ringfence/all.html").read_text(encoding="utf-8")))
    lines = [f"{kind} {path}" for kind, path in found]
    if "--write" in sys.argv:
        LIST.write_text("\n".join(lines) + "\n", encoding="utf-8")
    problems = []
    paths = collections.defaultdict(list)
    for kind, path in found:
        if not path.startswith(BACKENDS):
            paths[kind, path.split("::")[-1]].append(path)
    problems += [f"more than one path: {', '.join(of)}" for of in paths.values() if len(of) > 1]
    listed = LIST.read_text(encoding="utf-8").splitlines()
    problems += [f"not in {LIST.name}: {line}" for line in lines if line not in listed]
    problems += [f"no longer there: {line}" for line in listed if line not in lines]
    print("\n".join(problems))
    kinds = collections.Counter(kind for kind, _ in found)
    print(f"{len(found)} public items: {', '.join(f'{count} {kind}' for kind, count in kinds.most_common())}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
