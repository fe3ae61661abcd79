"""The values of an attempt's secrets, sealed in a file of its directory until it begins, even for days.

Called by the runner and by engines whose system has a queue of its own: those make the file and pass the key
to the job, as a variable; the runners open it. A site's copies of its disk contain no key, and its records of
the job contain no value. Each key is for one file, which is named after it, so two submissions of a job do
not interfere. The standard library has no cipher: SHAKE-256 of the key is the stream that hides the text,
HMAC-SHA-256 shows that it is complete.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Mapping, NamedTuple, Optional

from tarmac.node.attempt.protocol import SEALED_PREFIX
from tarmac.node.files import untrusted

_KEY_BYTES = 32
_SUM_BYTES = 32


class Sealed(NamedTuple):
    """A new key, and the file that only this key opens."""

    key: str
    name: str
    content: bytes


def seal(values: Mapping[str, str]) -> Sealed:
    """Seal these values in a file."""
    key = os.urandom(_KEY_BYTES)
    hidden = _hide(key, json.dumps(dict(values)).encode())
    return Sealed(key.hex(), _name(key), _sum(key, hidden) + hidden)


def read(directory: str, key: Optional[str]) -> dict[str, str]:
    """The values that the key opens; none without a key, or if the file is missing or damaged."""
    if not key:
        return {}
    try:
        number = bytes.fromhex(key)
        sealed = untrusted.read_bytes(os.path.join(directory, _name(number)), untrusted.DOCUMENT_BYTES)
        values = json.loads(_open(number, sealed))
    except (OSError, ValueError):
        return {}
    return {str(name): str(value) for name, value in values.items()}


def remove(directory: str) -> None:
    """Remove all sealed files of an attempt."""
    with suppress(OSError):
        for name in os.listdir(directory):
            if name.startswith(SEALED_PREFIX):
                with suppress(OSError):
                    os.unlink(os.path.join(directory, name))


def _name(key: bytes) -> str:
    import hashlib  # noqa: PLC0415 - a large library, and most attempts have no secrets

    return SEALED_PREFIX + hashlib.sha256(b"name" + key).hexdigest()[:16]


def _open(key: bytes, sealed: bytes) -> bytes:
    """Raises ValueError for text that was not sealed with this key."""
    import hmac  # noqa: PLC0415

    expected, hidden = sealed[:_SUM_BYTES], sealed[_SUM_BYTES:]
    if not hmac.compare_digest(expected, _sum(key, hidden)):
        raise ValueError("not sealed with this key")
    return _hide(key, hidden)


def _hide(key: bytes, text: bytes) -> bytes:
    """Hide a text, or reveal a hidden one."""
    import hashlib  # noqa: PLC0415

    stream = hashlib.shake_256(b"stream" + key).digest(len(text))
    return (int.from_bytes(text, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(text), "big")


def _sum(key: bytes, hidden: bytes) -> bytes:
    import hashlib  # noqa: PLC0415
    import hmac  # noqa: PLC0415

    return hmac.new(hashlib.sha256(b"sum" + key).digest(), hidden, hashlib.sha256).digest()
