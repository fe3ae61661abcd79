"""A snapshot and all its contents as one stream, for engines whose nodes cannot access this disk.

Called by `DirectoryCodeStore.stream`; `node/files/bundles.py` defines the format, and unpacks it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from tarmac.node.files.codestore import PACK_SUFFIX

CHUNK_BYTES = 1 << 20


def bundle(snapshot: Path, packs: Path) -> Iterator[bytes]:
    """The stream, piece by piece; raises OSError if the snapshot, or one of its packs, does not exist."""
    own = f"{snapshot.name}{PACK_SUFFIX}"
    places: dict[tuple[str, int, int], int] = {}
    end = 0
    lines = []
    with snapshot.open(encoding="ascii") as file:
        head = json.loads(next(file))
        for line in file:
            entry = json.loads(line)
            if entry[0] == "f":
                place = (entry[3], entry[4], entry[5])
                if place not in places:
                    places[place] = end
                    end += entry[5]
                entry[3:5] = own, places[place]
            lines.append(json.dumps(entry, separators=(",", ":")))
    listing = "\n".join([json.dumps({**head, "packs": [own]}), *lines, ""]).encode("ascii")
    yield b"%d %d\n" % (len(listing), end) + listing
    for pack, offset, size_bytes in places:
        with (packs / pack).open("rb") as contents:
            contents.seek(offset)
            for begin in range(0, size_bytes, CHUNK_BYTES):
                yield contents.read(min(size_bytes - begin, CHUNK_BYTES))
