"""Names derived from contents. Called by `layers`, `interpreter`, `requirements` and `secretfiles`."""

from __future__ import annotations


def digest(text: str) -> str:
    """The SHA-256 of a text, in hexadecimal digits."""
    import hashlib  # noqa: PLC0415 -- a large library, which every runner would be forked with

    return hashlib.sha256(text.encode()).hexdigest()
