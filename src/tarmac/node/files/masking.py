"""Hides known secrets in the output of programs: the values themselves, and their usual encodings.

The runner masks the last lines in its report, the server the logs in its answers. Workers write directly into
their files, so a printed secret is in the file, and is hidden by each reader.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Mapping
from typing import Any, Iterable, Iterator, List, Set, Tuple

from tarmac.node.files import secrecy
from tarmac.node.files.secrecy import Span

LEAST_BYTES = 4
"""Shorter values cannot be hidden: they occur everywhere."""

_LEAST_PART = 8
"""The minimum length of a line of a secret (or of its encodings) that is hidden by itself."""

_PARTLY_SECRET = 8
"""The minimum length of a secret's beginning that is hidden at the end of the data."""

_MOST_BUFFERED = 1 << 20
"""The maximum of withheld bytes: a worker may repeat one letter forever."""


class Mask:
    """Finds the secrets of a run in data, and also texts that look like keys."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        found: Set[bytes] = set()
        for value in values:
            found |= _forms(value)
        self._patterns = tuple(sorted(found, key=len, reverse=True))
        self._least = LEAST_BYTES if found else secrecy.LEAST_KEY
        self.context_bytes = max(secrecy.CONTEXT_BYTES, len(self._patterns[0]) if self._patterns else 0)

    def spans(self, data: bytes) -> List[Span]:
        """The ranges to hide, in order, without overlaps."""
        return secrecy.merged([*self._known(data), *secrecy.key_spans(data.decode("latin-1"))])

    def cut(self, data: bytes, spans: List[Span]) -> int:
        """The end of the part of `data` that can be shown: the rest may become a secret with later bytes."""
        cut = min(secrecy.open_end(data.decode("latin-1")), self._prefix_at_end(data))
        if len(data) - cut > _MOST_BUFFERED:
            return len(data)
        for start, end in reversed(spans):
            if start < cut < end:
                cut = start
        return cut

    def spans_at_end(self, data: bytes) -> List[Span]:
        """Like `spans`, for the end of all data: also hides a long beginning of a secret at the end."""
        spans = self.spans(data)
        start = self._prefix_at_end(data)
        if len(data) - start >= _PARTLY_SECRET:
            spans = secrecy.merged([*spans, (start, len(data))])
        return spans

    def data(self, data: bytes) -> bytes:
        """Complete data without secrets."""
        return b"".join(pieces(data, self.spans(data), 0, len(data)))

    def text(self, text: str) -> str:
        """A complete text without secrets."""
        if len(text) < self._least and text.isascii():
            return text
        return self.data(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def tree(self, value: Any) -> Any:
        """JSON without secrets in its texts."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {key: self.tree(item) for key, item in value.items()}
        return [self.tree(item) for item in value] if isinstance(value, (list, tuple)) else value

    def _known(self, data: bytes) -> Iterator[Span]:
        for pattern in self._patterns:
            at = data.find(pattern)
            while at >= 0:
                yield at, at + len(pattern)
                at = data.find(pattern, at + 1)

    def _prefix_at_end(self, data: bytes) -> int:
        """The position of the longest beginning of a secret at the end of `data`, else its length."""
        first = len(data)
        for pattern in self._patterns:
            at = data.find(pattern[:1], max(0, len(data) - len(pattern) + 1))
            while 0 <= at < first:
                if pattern.startswith(data[at:]):
                    first = at
                at = data.find(pattern[:1], at + 1)
        return first


NO_SECRETS = Mask()
"""The mask of runs without secrets: it still hides texts that look like keys."""


def pieces(data: bytes, spans: List[Span], start: int, stop: int) -> Iterator[bytes]:
    """`data[start:stop]` with `***` in the spans; a span that began earlier is hidden to its end."""
    at = start
    for begin, end in spans:
        if end <= start or begin >= stop or start >= stop:
            continue
        yield data[at : max(at, begin)]
        yield secrecy.MASK.encode()
        at = min(end, stop)
    yield data[at:stop]


def parts(value: str) -> Iterator[str]:
    """The parts of a secret that may be printed alone: each line, and values with the name of a secret."""
    lines = value.splitlines()
    if len(lines) > 1:
        yield from (line.strip() for line in lines)
    try:
        yield from _named(json.loads(value))
    except ValueError:
        for line in lines:
            name, sign, rest = line.partition("=") if "=" in line else line.partition(":")
            if sign and secrecy.names_secret(name.strip().rpartition(".")[2]):
                yield rest.strip().strip("\"'")


def _named(tree: Any, name: str = "") -> Iterator[str]:
    if isinstance(tree, str):
        if secrecy.names_secret(name):
            yield tree
    elif isinstance(tree, Mapping):
        for key, item in tree.items():
            yield from _named(item, str(key))
    elif isinstance(tree, list):
        for item in tree:
            yield from _named(item, name)


def _forms(value: str) -> Set[bytes]:
    """The byte strings that reveal a secret."""
    found = {value.strip().encode()}
    for whole in (value, value.strip()):
        found |= {form for form in _coded(whole) if len(form) >= _LEAST_PART}
    for part in parts(value):
        if len(part) >= _LEAST_PART:
            found |= {part.encode(), *(form for form in _coded(part) if len(form) >= _LEAST_PART)}
    return {form for form in found if len(form) >= LEAST_BYTES}


def _coded(text: str) -> Iterator[bytes]:
    """A text quoted for Python, shells and JSON, in URLs, in base64 (also within more) and hexadecimal."""
    data = text.encode()
    yield repr(text)[1:-1].encode()
    yield repr(data)[2:-1].encode()
    for sign in ("'\\''", "'\"'\"'"):  # of bash when it prints what it does, and of `shlex.quote`
        yield text.strip().replace("'", sign).encode()  # a line end outside the quotes is no part of it
    yield json.dumps(text)[1:-1].encode()
    yield json.dumps(text, ensure_ascii=False)[1:-1].encode()
    for safe in (_UNRESERVED, _UNRESERVED + b"/"):
        for escape in ("%%%02X", "%%%02x"):
            quoted = "".join(chr(one) if one in safe else escape % one for one in data)
            yield quoted.encode()
            yield quoted.replace("%20", "+").encode()
    yield binascii.hexlify(data)
    for shift in range(3):
        coded = binascii.b2a_base64(b"\0" * shift + data, newline=False)
        torn = (shift + len(data)) % 3  # the last letter depends on the next bytes
        inner = coded.rstrip(b"=")[(0, 2, 3)[shift] : -1 if torn else None]
        for found in (coded, inner) if shift == 0 else (inner,):
            yield found
            yield found.translate(_URL_SAFE)


_UNRESERVED = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-~"
_URL_SAFE = bytes.maketrans(b"+/", b"-_")


def split_at(data: bytes, mask: Mask, start: int, *, final: bool) -> Tuple[bytes, int]:
    """The masked part of `data` from `start` that can be shown, and its end; all of it if `final`.

    The bytes before `start` are context: a secret that extends from there into the rest is hidden.
    """
    if final:
        return b"".join(pieces(data, mask.spans_at_end(data), start, len(data))), len(data)
    spans = mask.spans(data)
    cut = max(start, mask.cut(data, spans))
    return b"".join(pieces(data, spans, start, cut)), cut
