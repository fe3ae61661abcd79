"""The file with the keys that secrets are sealed with: one key a line, the first seals, all of them open.

In the home, or where the setting `secrets.key_file` says: several servers on one database share it. It is
made when the first secret is set, and read again when a secret names a key that is not known.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hashlib
import os
import stat
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tarmac.model.errors import Unavailable

KEY_BYTES = 32
_ID_LETTERS = 12


@dataclass(frozen=True, slots=True)
class Key:
    """A key. Its `id` says which it is, and nothing of what it is."""

    data: bytes = field(repr=False)

    @property
    def id(self) -> str:
        return hashlib.sha256(b"tarmac secret key\0" + self.data).hexdigest()[:_ID_LETTERS]


class KeyFile:
    """The keys of a server. Every method raises Unavailable where the file cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> tuple[Key, ...]:
        """The keys there are, the one that seals first; none where there is no file."""
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
        """The key that seals, made now where there is none."""
        if not (keys := self.read()):
            with contextlib.suppress(FileExistsError):  # another server was first
                self._write([Key(os.urandom(KEY_BYTES))], replacing=False)
            keys = self.read()
        return keys[0]

    def add(self) -> Key:
        """A new key that seals from now on; those before it still open."""
        key = Key(os.urandom(KEY_BYTES))
        self._write([key, *self.read()], replacing=True)
        return key

    def keep_first(self) -> None:
        """Forget all keys but the one that seals."""
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
        """Write the file whole, readable by its owner alone, and see it onto the disk."""
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
            directory = os.open(self.path.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except FileExistsError:
            raise
        except OSError as error:
            raise Unavailable(f"the key file {self.path} cannot be written: {error.strerror}") from None
