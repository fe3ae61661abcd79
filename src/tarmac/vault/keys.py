"""The file with the keys that seal secrets: one key per line; the first seals, all of them open.

Used by `vault`. The file is in the home, or at the path of the setting `secrets.key_file`: several servers on
one database share it. It is created with the first secret, and read again when a secret names an unknown key.
"""

import base64
import binascii
import contextlib
import hashlib
import json
import os
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tarmac.model.errors import Unavailable
from tarmac.model.secret import SecretVersion
from tarmac.node.kernel.handles import flush

KEY_BYTES = 32
_ID_LETTERS = 12


@dataclass(frozen=True, slots=True)
class Key:
    """A key. Its `id` identifies the key and reveals nothing of its data."""

    data: bytes = field(repr=False)

    @property
    def id(self) -> str:
        return hashlib.sha256(b"tarmac secret key\0" + self.data).hexdigest()[:_ID_LETTERS]


class KeyFile:
    """The keys of a server. Every method raises Unavailable if the file cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> tuple[Key, ...]:
        """The keys in the file, the sealing one first; none if there is no file."""
        try:
            with self.path.open("rb") as file:
                found = os.fstat(file.fileno())
                text = file.read(1 << 16).decode("ascii")
        except FileNotFoundError:
            return ()
        except (OSError, UnicodeDecodeError) as error:
            raise Unavailable(f"the key file {self.path} cannot be read: {error}") from None
        if stat.S_IMODE(found.st_mode) & 0o077:
            raise Unavailable(
                f"the key file {self.path} can be read by others (mode {stat.S_IMODE(found.st_mode):o})",
                hint=f"chmod 600 {self.path}",
            )
        return tuple(self._key(line) for line in text.split())

    def create(self) -> Key:
        """The key that seals, created now if there is none."""
        if not (keys := self.read()):
            with contextlib.suppress(FileExistsError):  # another server created it first
                self._write([Key(os.urandom(KEY_BYTES))], replacing=False)
            keys = self.read()
        return keys[0]

    def add(self) -> Key:
        """Add a new key that seals from now on; earlier ones still open."""
        key = Key(os.urandom(KEY_BYTES))
        self._write([key, *self.read()], replacing=True)
        return key

    def keep_first(self) -> None:
        """Remove all keys but the sealing one."""
        self._write(self.read()[:1], replacing=True)

    def _key(self, line: str) -> Key:
        with contextlib.suppress(binascii.Error, ValueError):
            data = base64.b64decode(line, validate=True)
            if len(data) == KEY_BYTES:
                return Key(data)
        raise Unavailable(
            f"the key file {self.path} holds a line that is no key",
            hint="each line is the base64 of 32 random bytes; restore the file from its copy",
        )

    def _write(self, keys: Sequence[Key], *, replacing: bool) -> None:
        """Write the complete file, readable by its owner alone, and sync it to disk."""
        text = "".join(f"{base64.b64encode(key.data).decode()}\n" for key in keys)
        try:
            descriptor, draft = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}.")
            try:
                with os.fdopen(descriptor, "w") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                (os.replace if replacing else os.link)(draft, self.path)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    Path(draft).unlink()
            flush(self.path.parent)
        except FileExistsError:
            raise
        except OSError as error:
            raise Unavailable(f"the key file {self.path} cannot be written: {error.strerror}") from None


_NONCE_BYTES = 12


class CannotOpen(Exception):
    """The value was changed, moved, or sealed with another key."""


def seal(value: str, key: Key, place: str) -> str:
    """The value, sealed for this place."""
    nonce = os.urandom(_NONCE_BYTES)
    return base64.b64encode(nonce + _cipher(key).encrypt(nonce, value.encode(), place.encode())).decode()


def unseal(sealed: str, key: Key, place: str) -> str:
    """The value that was sealed for this place; raises CannotOpen."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see above

    try:
        data = base64.b64decode(sealed, validate=True)
        opened: bytes = _cipher(key).decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], place.encode())
    except (InvalidTag, ValueError, binascii.Error) as error:
        raise CannotOpen("it was changed since it was sealed") from error
    return opened.decode()


def place_of(version: SecretVersion) -> str:
    """The associated data of a value: its scope, name and number."""
    return json.dumps([version.scope, version.name, version.number])


def _cipher(key: Key) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - see above

    return AESGCM(key.data)
