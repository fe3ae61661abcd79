"""Files that go to a site in parts: an archive of the delivered packages, code, large files of artifacts.

An interface limits a call to about 1 MiB, and joins no parts. The parts are in a directory below `packed`,
named after their target; a file with the digest of the whole completes them. The next job to begin joins,
compares and unpacks all complete ones; of several jobs the first one puts them in their places. A large whole
is one part, if the interface has a way for that. Used by `SiteOperations` and `SiteEngine`.
"""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import IO
from urllib.parse import quote, unquote

from tarmac.engines.sites.wire import PART_BYTES, RemoteEntry, SiteFiles
from tarmac.launch.quoting import quote as shell_quote

PACKED = "packed"
SUM = "sum"
PART = "part-{:05}"
IN_MEMORY_BYTES = 8 << 20
"""The most bytes in memory; more are in a temporary file."""

LARGE_BYTES = 32 << 20
"""What is larger is sent as a whole, if possible: in parts it takes minutes."""

GZIP_WINDOW = 31
"""For zlib: with the header of gzip."""

UNPACK = """# Files that came in parts: each is put in its place once, by the first job.
unpack() {{
    local parts=$1 target=${{1##*/}} draft sum
    target=${{target%~*}}
    printf -v target '%b' "${{target//\\%/\\\\x}}"
    target=$home/$target draft=$home/{packed}/draft.$SLURM_JOB_ID
    read -r sum < "$parts/{sum}" || return
    [ "$(cat "$parts"/part-* | sha256sum)" = "$sum  -" ] || return
    mkdir -p "${{target%/*}}" "$draft"
    case $target in
        "$home"/code/*) cat "$parts"/part-* | gzip -dc | {take} "$home/code" "${{target##*/}}" ;;
        "$home"/node/*) cat "$parts"/part-* | tar -xzf - -C "$draft" && {{ {compile} "$draft" || :; }} &&
            {{ mv -T "$draft" "$target" || [ -e "$target" ]; }} ;;
        *) cat "$parts"/part-* > "$draft/whole" && mv "$draft/whole" "$target" ;;
    esac && rm -f "$parts/{sum}"
    rm -rf "$draft"
    [ -e "$parts/{sum}" ] || rm -rf "$parts"
}}
home={home}
set -o pipefail
for parts in "$home/{packed}"/node%2F*~* "$home/{packed}"/*~*; do
    [ ! -e "$parts/{sum}" ] || unpack "$parts"
done
set +o pipefail
for path in {needed}; do
    [ -e "$path" ] || {{ echo "$path is missing, and cannot be unpacked"; exit 1; }}
done
"""


def unpacking(home: str, needed: Iterable[str], *, take: str, compile_with: str) -> str:
    """The lines of a job that unpack all that came, and exit if one of the needed paths is missing."""
    return UNPACK.format(
        home=shell_quote(home),
        packed=PACKED,
        sum=SUM,
        take=take,
        compile=compile_with,
        needed=" ".join(map(shell_quote, needed)),
    )


class Packed:
    """The parts below `home`, the directory of a cluster at a site. Raises Unavailable and OSError."""

    def __init__(self, files: SiteFiles, home: str) -> None:
        self._files = files
        self._home = home

    def begin(self, target: str) -> Parts:
        """Begin parts that become the target."""
        name = f"{quote(target.removeprefix(f'{self._home}/'), safe='')}~{os.urandom(4).hex()}"
        return Parts(self._files, f"{self._home}/{PACKED}/{name}")

    def put(self, target: str, pieces: Iterable[bytes]) -> None:
        """Bring all that becomes the target."""
        with tempfile.SpooledTemporaryFile(max_size=IN_MEMORY_BYTES) as whole:
            digest = hashlib.sha256()
            for piece in pieces:
                digest.update(piece)
                whole.write(piece)
            size_bytes = whole.tell()
            whole.seek(0)
            if size_bytes >= LARGE_BYTES:
                if self.begin(target).send(whole, size_bytes, digest.hexdigest()):
                    return
                whole.seek(0)
            parts = self.begin(target)
            for piece in iter(partial(whole.read, PART_BYTES), b""):
                parts.add(piece)
            parts.complete()

    def complete(self) -> Mapping[str, RemoteEntry]:
        """The targets of complete parts, each with the bytes and the time of its parts."""
        found: dict[str, list[RemoteEntry]] = {}
        for entry in self._files.listing(f"{self._home}/{PACKED}", recursive=True) or ():
            name, _, rest = entry.path.partition("/")
            if rest and "~" in name:
                found.setdefault(name, []).append(entry._replace(path=rest))
        targets = {}
        for name, entries in found.items():
            whole = next((entry for entry in entries if entry.path == SUM), None)
            if whole is not None:
                size_bytes = sum(entry.size_bytes for entry in entries if entry is not whole)
                path = unquote(name.rpartition("~")[0])
                targets[f"{self._home}/{path}"] = RemoteEntry(path, "file", size_bytes, whole.modified_at)
        return targets


class Parts:
    """Parts in a directory of their own, written in order."""

    def __init__(self, files: SiteFiles, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._digest = hashlib.sha256()
        self._rest = b""
        self._count = 0

    def add(self, piece: bytes) -> None:
        """Add the next bytes."""
        self._rest += piece
        while len(self._rest) >= PART_BYTES:
            self._write(self._rest[:PART_BYTES])
            self._rest = self._rest[PART_BYTES:]

    def send(self, whole: IO[bytes], size_bytes: int, digest: str) -> bool:
        """Bring all as one part, and complete it; False if this interface cannot, or failed."""
        self._files.make_directory(self._directory)
        path = f"{self._directory}/{PART.format(0)}"
        sent = self._files.send(path, whole, size_bytes=size_bytes, digest=digest)
        if sent:
            self._write_sum(digest)
        else:
            self._files.remove(self._directory)  # a late arrival has no place, and no digest
        return sent

    def complete(self) -> None:
        """Write the last part, and the digest of all: from then on a job may join them."""
        if self._rest or not self._count:
            self._write(self._rest)
        self._write_sum(self._digest.hexdigest())

    def _write_sum(self, digest: str) -> None:
        self._files.write(f"{self._directory}/{SUM}", f"{digest}\n".encode())

    def _write(self, content: bytes) -> None:
        if not self._count:
            self._files.make_directory(self._directory)
        self._files.write(f"{self._directory}/{PART.format(self._count)}", content)
        self._digest.update(content)
        self._count += 1


def compressed(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """The pieces as gzip."""
    compressor = zlib.compressobj(wbits=GZIP_WINDOW)
    for piece in pieces:
        yield compressor.compress(piece)
    yield compressor.flush()


def archive(files: Mapping[str, bytes]) -> bytes:
    """Files by relative path as one archive."""
    written = io.BytesIO()
    with tarfile.TarFile(fileobj=written, mode="w") as tar:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return written.getvalue()
