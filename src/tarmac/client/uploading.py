"""Uploads code to a server that cannot read it: only contents that it lacks, then the tree.

Used by `Client.submit` for a server at a URL. The server selects the directory of a run file and its excluded
files; the walk and the hashes are those of the server's own snapshots (`artifacts`), so that both compute the
same digest. This machine remembers hashes by each file's metadata. An interrupted upload resumes: packs that
arrived are kept.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from tarmac import api
from tarmac.artifacts.code import tree
from tarmac.artifacts.code.archives import is_archive
from tarmac.artifacts.code.arrivals import HEADER
from tarmac.artifacts.code.content import HashMemory, Unreadable, Vanished, chunks, hash_file
from tarmac.client.calls import Calls, decoded, path_of
from tarmac.client.transport import Pieces, Transport
from tarmac.model.errors import InvalidInput, Refused, Unavailable
from tarmac.model.home import xdg_directory
from tarmac.model.spec import LocalDirectory

PACK_BYTES = 8 << 20
TRIES = 3
HASHES = "hashes"

OnUpload = Callable[[int, int], None]
"""Called with the number of bytes sent and their total."""


class ChangedMeanwhile(Exception):
    """A file changed between hashing and sending."""


class Uploads(Calls):
    """The uploads of one call: a directory is sent once, even for several runs."""

    def __init__(
        self, transport: Transport, *, on_upload: OnUpload | None, leave_out: Sequence[Path]
    ) -> None:
        super().__init__(transport, on_notice=lambda _: None)  # the client itself shows notices
        self._leave_out = leave_out
        self._on_upload = on_upload or (lambda _sent_bytes, _of_bytes: None)
        caches = Path.home() / xdg_directory(os.environ, "XDG_CACHE_HOME", ".cache")
        self._memory = HashMemory(caches / "tarmac" / HASHES)
        self._digests: dict[bytes, str] = {}

    def digest_for(self, submission: api.SubmissionBody) -> str | None:
        """The snapshot of a submission: sent now, if its code is a directory of this machine."""
        directory = self._call(api.CODE_NEEDED, body=submission).directory
        if directory is None:
            return None
        key, code = (
            msgspec.json.encode(directory),
            msgspec.convert(directory, LocalDirectory, from_attributes=True),
        )
        if key not in self._digests:
            self._digests[key] = self._send_directory(code)
        return self._digests[key]

    def _send_directory(self, code: LocalDirectory) -> str:
        send = self._send_archive if is_archive(Path(code.path)) else self._send_tree
        for attempt in range(TRIES):
            try:
                return send(code)
            except (Vanished, ChangedMeanwhile):
                continue
            except Unreadable as failure:
                raise InvalidInput(
                    [tree.unreadable(failure.path, failure.error, tree.leave_out_hint(code))]
                ) from None
            except Refused:  # the server removed contents by age that it had reported
                if attempt == TRIES - 1:
                    raise
        raise Unavailable(
            f"{code.path} keeps changing while it is being sent", hint="submit again when it rests"
        )

    def _send_tree(self, code: LocalDirectory) -> str:
        root = tree.readable_directory(code.path)
        entries = tree.scan(root, code=code, leave_out=self._leave_out)
        assert code.limit_bytes is not None, "the server says what is allowed"
        tree.check_size(entries, source=code.path, code=code, limit_bytes=code.limit_bytes)
        hashes = self._memory.hashes(root, entries)
        files = {
            hashes[entry.path]: (entry.under(root), entry.size_bytes)
            for entry in entries
            if entry.kind is tree.Kind.FILE
        }
        self._send_contents(files)
        return self._commit(
            code,
            {"entries": [tree.line_of(entry, hashes.get(entry.path), entry.mtime_ns) for entry in entries]},
        )

    def _send_archive(self, code: LocalDirectory) -> str:
        path = Path(code.path)
        content = hash_file(path)
        self._send_contents({content: (path, path.stat().st_size)})
        return self._commit(code, {"archive": content, "exclude": list(code.exclude)})

    def _commit(self, code: LocalDirectory, contents: Mapping[str, Any]) -> str:
        sent = {"path": code.path, "limit_bytes": code.limit_bytes, **contents}
        sent["extra_files"] = list(code.extra_files)
        path = path_of(api.SEND_TREE)
        answer = self._transport.request("POST", path, body=json.dumps(sent).encode())
        return decoded(api.UploadedTree, answer.body).digest

    def _send_contents(self, files: Mapping[str, tuple[Path, int]]) -> None:
        missing = self._call(api.MISSING_CONTENTS, body=api.ContentsBody(contents=list(files))).missing
        of_bytes = sum(files[content][1] for content in missing)
        sent_bytes = 0
        for contents in _packed(missing, files):
            pack = {content: files[content] for content in contents}
            self._send_pack(pack, partial(self._tell, sent_bytes, of_bytes))
            sent_bytes += sum(size_bytes for _, size_bytes in pack.values())
        if missing:
            self._on_upload(of_bytes, of_bytes)

    def _send_pack(self, files: Mapping[str, tuple[Path, int]], progress: Callable[[int], None]) -> None:
        size_bytes = sum(HEADER.size + size_bytes for _, size_bytes in files.values())
        pack = Pieces(size_bytes=size_bytes, begin=partial(_pieces, files, progress))
        try:
            self._transport.request("POST", path_of(api.SEND_PACK), body=pack)
        except InvalidInput:  # a content does not match its hash
            raise ChangedMeanwhile from None

    def _tell(self, before_bytes: int, of_bytes: int, sent_bytes: int) -> None:
        self._on_upload(before_bytes + sent_bytes, of_bytes)


def _packed(contents: Sequence[str], files: Mapping[str, tuple[Path, int]]) -> Iterator[list[str]]:
    """The contents in packs of bounded size; a larger content is a pack of its own."""
    pack: list[str] = []
    pack_bytes = 0
    for content in contents:
        size_bytes = files[content][1]
        if pack and pack_bytes + size_bytes > PACK_BYTES:
            yield pack
            pack, pack_bytes = [], 0
        pack.append(content)
        pack_bytes += size_bytes
    if pack:
        yield pack


def _pieces(files: Mapping[str, tuple[Path, int]], progress: Callable[[int], None]) -> Iterator[bytes]:
    """A pack in its wire format; raises ChangedMeanwhile for a file that is longer or shorter now."""
    sent_bytes = 0
    for content, (path, size_bytes) in files.items():
        header = HEADER.pack(bytes.fromhex(content), size_bytes)
        left_bytes = size_bytes
        for chunk in chunks(path):
            left_bytes -= len(chunk)
            if left_bytes < 0:
                raise ChangedMeanwhile
            yield header + chunk
            header = b""
            sent_bytes += len(chunk)
            progress(sent_bytes)
        if left_bytes > 0:
            raise ChangedMeanwhile
        if header:
            yield header
