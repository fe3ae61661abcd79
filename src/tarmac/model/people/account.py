"""Accounts of people and programs: users, their organisations and projects, and their tokens.

Kept by `store.accounts`, changed by `server.accounts`. A server without any account serves the users of its
machine alone.
"""

import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Protocol

from msgspec import Meta, Struct

from tarmac.model.actor import Action, ActorRole

DEFAULT_ORGANISATION = "default"

TOKEN_DAYS = 90
"""The lifetime of a token that names no other."""

EVERY_USER = "*"
"""The user of a membership that all accounts have; one's own counts before it."""

TOKEN_PREFIX = "tarmac_"
"""The beginning of every token: scanners for leaked secrets find it."""


def salted(secret: str) -> str:
    """A password or token in the form that records hash further; an empty one stays empty.

    Clients of a gateway send this form, with this salt, in place of the text: they can log in all the same.
    """
    return hashlib.sha512(f"GubPEmmotfiK9TMD6Zdw{secret}".encode()).hexdigest() if secret else ""


class Visibility(StrEnum):
    """The rights of members of an organisation to the runs of its other members.

    CONTROL: view and change them. VIEW: view them, as those of everybody. OWN: nothing. Under CONTROL and OWN
    the runs of other organisations are hidden.
    """

    CONTROL = "control"
    VIEW = "view"
    OWN = "own"


class AccountSettings(Struct, frozen=True, kw_only=True):
    """The settings of an account: of a user, or with `service` of a program.

    `system_user` is the account of the nodes that its runs use, `identity` its subject in single sign-on.
    """

    role: ActorRole = ActorRole.MEMBER
    service: bool = False
    organisation: Annotated[str, Meta(max_length=63)] = DEFAULT_ORGANISATION
    system_user: Annotated[str, Meta(max_length=63)] | None = None
    identity: Annotated[str, Meta(max_length=512)] | None = None
    disabled: bool = False


class Account(AccountSettings, frozen=True, kw_only=True):
    """A user, or a program. `has_password`: it may log in by a password."""

    name: str
    created_at: float
    has_password: bool = False


class Organisation(Struct, frozen=True, kw_only=True):
    """A group of accounts."""

    name: str
    visibility: Visibility = Visibility.VIEW


class Membership(Struct, frozen=True, kw_only=True):
    """The role of a user in a project. Only its members and admins of the server see and use a project."""

    project: str
    user: str
    role: ActorRole


class Token(Struct, frozen=True, kw_only=True):
    """A token of an account, without its text. `scopes`: None for all that its account may do.

    `session`: it is the cookie of a browser, and counts there alone. `last_used_at` is exact to a minute.
    """

    id: str
    user: str
    label: str
    created_at: float
    expires_at: float | None = None
    scopes: tuple[Action, ...] | None = None
    session: bool = False
    last_used_at: float | None = None
    revoked_at: float | None = None


class AuditEntry(Struct, frozen=True, kw_only=True):
    """A change or a refusal: the user, the operation and its target, the address, and the answer's status."""

    at: float
    user: str
    origin: str
    action: str
    target: str
    status: int
    token: str | None = None
    id: int = 0


class People(Struct, frozen=True, kw_only=True):
    """All accounts, organisations and memberships at one time. Password hashes are by user."""

    accounts: Mapping[str, Account]
    organisations: Mapping[str, Organisation]
    memberships: Sequence[Membership]


class AccountRecords(Protocol):
    """The durable record of accounts. Errors are those of `ports.Store`; a write survives power loss."""

    def people(self) -> People:
        """Everything but tokens and hashes."""

    def put_account(self, new: Account, *, password: str | None = None) -> None:
        """Store an account, in place of one of that name; `password` is a hash, None keeps the stored one."""

    def add_account(self, new: Account) -> bool:
        """Store an account without a password; does nothing and returns False if there is one of its name."""

    def password(self, name: str) -> str | None:
        """The hash of an account's password."""

    def remove_account(self, name: str) -> None:
        """Remove an account with its memberships, tokens and subscriptions; its runs stay."""

    def put_organisation(self, new: Organisation) -> None:
        """Store an organisation, in place of one of that name."""

    def put_membership(self, new: Membership) -> None:
        """Store a membership, in place of one of that user and project."""

    def remove_membership(self, project: str, user: str) -> None:
        """Remove a membership; does nothing if there is none."""

    def tokens(self, user: str | None = None) -> list[Token]:
        """The tokens of an account, or of all, oldest first."""

    def token(self, digest: str) -> Token | None:
        """The token with this SHA-256 (hexadecimal) of its text."""

    def add_token(self, token: Token, *, digest: str) -> bool:
        """Store a new token; does nothing and returns False if there is one with its id."""

    def note_use(self, token_id: str, *, at: float) -> None:
        """Record the last use of a token."""

    def revoke(self, *, at: float, token_id: str | None = None, user: str | None = None) -> int:
        """Revoke a token, or all of a user; returns the number of those that were not revoked before."""

    def add_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Append to the audit log."""

    def audit(self, *, user: str | None = None, since: float = 0.0, limit: int) -> list[AuditEntry]:
        """The newest entries of the audit log since a time, newest first."""
