"""The cipher: AES-256-GCM, with the identity of a value as associated data. Called by `vault` alone.

A sealed value opens only under its own scope, name and number: a row moved to another name is refused. The
library is imported when the first secret is sealed or opened: most servers never do.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
from typing import Any

from tarmac.model.secret import SecretVersion
from tarmac.vault.keys import Key

NONCE_BYTES = 12


class CannotOpen(Exception):
    """The value was changed, moved, or sealed with another key."""


def seal(value: str, key: Key, place: str) -> str:
    """The value, sealed for this place."""
    nonce = os.urandom(NONCE_BYTES)
    return base64.b64encode(nonce + _cipher(key).encrypt(nonce, value.encode(), place.encode())).decode()


def unseal(sealed: str, key: Key, place: str) -> str:
    """The value that was sealed for this place; raises CannotOpen."""
    from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - see above

    try:
        data = base64.b64decode(sealed, validate=True)
        opened: bytes = _cipher(key).decrypt(data[:NONCE_BYTES], data[NONCE_BYTES:], place.encode())
    except (InvalidTag, ValueError, binascii.Error) as error:
        raise CannotOpen("it was changed since it was sealed") from error
    return opened.decode()


def place_of(version: SecretVersion) -> str:
    """The associated data of a value: its scope, name and number."""
    return json.dumps([version.scope, version.name, version.number])


def _cipher(key: Key) -> Any:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # noqa: PLC0415 - see above

    return AESGCM(key.data)
