"""The context directory of an experiment: stored as a code snapshot, returned as an archive.

Called by the routes about experiments and tasks.
"""

import base64
import binascii
import io
import json
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tarmac.artifacts.code.store import DirectoryCodeStore
from tarmac.model.errors import InvalidInput
from tarmac.systems.determined.context import context_of
from tarmac.systems.determined.gateway.calls import whole

CONTEXT = "/context"
"""The name of a context in messages: it has no path on this server."""

_DIRECTORY = 53
"""The type of a directory entry; a file has 48."""


def take_in(files: Sequence[Any], code: DirectoryCodeStore) -> str:
    """Store the files of a request as a snapshot; returns its digest. Raises InvalidInput for bad files."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for item in files:
            _add(tar, item)
    archive.seek(0)
    return code.unpack(archive, context_of(CONTEXT))


def _add(tar: tarfile.TarFile, item: Any) -> None:
    if not isinstance(item, Mapping) or not isinstance(item.get("path"), str):
        raise InvalidInput("modelDefinition: a list of files with 'path' and 'content' is expected")
    entry = tarfile.TarInfo(item["path"])
    entry.mode = whole("mode", item.get("mode") or 0o644) & 0o777
    if whole("type", item.get("type") or 0) == _DIRECTORY:
        entry.type, entry.mode = tarfile.DIRTYPE, entry.mode | 0o700
        tar.addfile(entry)
        return
    try:
        content = base64.b64decode(item.get("content") or "", validate=True)
    except (binascii.Error, TypeError):
        raise InvalidInput(f"modelDefinition: the content of {item['path']!r:.100} is not base64") from None
    entry.size = len(content)
    tar.addfile(entry, io.BytesIO(content))


def give_out(digest: str | None, code: DirectoryCodeStore) -> str:
    """The content of a snapshot as a gzipped tar archive in base64; without a snapshot an empty archive.

    Raises NotFound if the snapshot was removed.
    """
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:gz") as tar:
        if digest is not None:
            for entry, content in _entries(b"".join(code.stream(digest))):
                tar.addfile(entry, io.BytesIO(content) if entry.isfile() else None)
    return base64.b64encode(archive.getvalue()).decode()


def _entries(bundle: bytes) -> Iterator[tuple[tarfile.TarInfo, bytes]]:
    """The files, directories and links in a code bundle, in the format of `node/files/codestore.py`."""
    head, _, rest = bundle.partition(b"\n")
    listing_bytes = int(head.split()[0])
    contents = memoryview(rest)[listing_bytes:]
    for line in rest[:listing_bytes].decode("ascii").splitlines()[1:]:
        kind, detail, path, *place = json.loads(line)
        entry = tarfile.TarInfo(path)
        if kind == "d":
            entry.type, entry.mode = tarfile.DIRTYPE, detail | 0o700
        elif kind == "l":
            entry.type, entry.linkname = tarfile.SYMTYPE, detail
        else:
            _, offset, size_bytes = place[:3]
            entry.mode, entry.size = detail, size_bytes
            yield entry, bytes(contents[offset : offset + size_bytes])
            continue
        yield entry, b""
