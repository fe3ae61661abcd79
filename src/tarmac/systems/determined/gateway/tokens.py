"""Tokens of the gateway, with their subject and expiry, sealed with the home's token.

The server stores only logouts, so a restart ends no session; a new token in the home ends all of them.
"""

import base64
import binascii
import hashlib
import hmac
import json
import secrets
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from threading import Lock

from tarmac.model.people.account import salted

DEFAULT_USER = "determined"
OPEN_USERS = frozenset({DEFAULT_USER, "admin"})
"""The names under which the owner of the server may log in without a password."""

SESSION_S = 7 * 24 * 3600.0
"""Lifetime of a login."""


class TokenKind(StrEnum):
    """The subject of a token.

    USER: a user who shares the server's own rights. TOKEN: the token of an account, by its digest.
    ALLOCATION: the code of an attempt, by the attempt's id.
    """

    USER = "user"
    TOKEN = "token"
    ALLOCATION = "allocation"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """The subject of a token, by its kind; `owner` is the user of an attempt's run."""

    kind: TokenKind
    subject: str
    owner: str = ""


class TokenMaker:
    """Makes tokens, and reads its own.

    `secret` is the token of the home. `logouts` is a file with the seals of returned tokens, each with its
    expiry.
    """

    def __init__(self, secret: str, logouts: Path | None = None) -> None:
        self._secret = secret
        self._key = hmac.new(secret.encode(), b"determined gateway", hashlib.sha256).digest()
        self._lock, self._file, self._logouts = Lock(), logouts, dict[str, float]()
        with suppress(FileNotFoundError, ValueError):
            self._logouts.update(json.loads(logouts.read_bytes()) if logouts is not None else {})

    def make(self, claim: Claim, *, until: float) -> str:
        """A token that is valid until a time."""
        content = {"kind": claim.kind, "subject": claim.subject, "owner": claim.owner, "until": until}
        if claim.kind is not TokenKind.ALLOCATION:
            content["session"] = secrets.token_hex(8)
        body = base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")
        return f"{body}.{self._seal(body)}"

    def read(self, token: str, *, now: float) -> Claim | None:
        """The claim of a token; None for an unknown or expired token."""
        body, _, seal = token.rpartition(".")
        if not hmac.compare_digest(seal.encode(), self._seal(body).encode()) or seal in self._logouts:
            return None
        try:
            found = json.loads(base64.urlsafe_b64decode(f"{body}{'=' * (-len(body) % 4)}"))
            claim = Claim(kind=TokenKind(found["kind"]), subject=found["subject"], owner=found["owner"])
            return claim if now < found["until"] else None
        except (binascii.Error, ValueError, KeyError):
            return None

    def end(self, token: str, *, now: float) -> None:
        """Refuse a session's token from now on, also after a restart; ignores other tokens."""
        if self.read(token, now=now) is None:
            return
        with self._lock:
            current = {seal: until for seal, until in self._logouts.items() if now < until}
            self._logouts = {**current, token.rpartition(".")[2]: now + SESSION_S}
            if self._file is not None:
                draft = self._file.with_name(f"{self._file.name}.draft")
                draft.write_text(json.dumps(self._logouts))
                draft.replace(self._file)

    def is_password(self, password: str) -> bool:
        """Whether a password, in its salted form, is the token of the home."""
        return hmac.compare_digest(password.encode(), salted(self._secret).encode())

    def _seal(self, body: str) -> str:
        return hmac.new(self._key, body.encode(), hashlib.sha256).hexdigest()
