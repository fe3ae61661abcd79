"""Secrets: values that runs get by name, and their stored form. Used by `server`, `store` and engines.

A record of a run names a secret (`SecretUse`); its value is stored sealed (`SecretVersion`), opened when an
attempt starts, and never part of a record, a request to an engine, or an answer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from tarmac.model.codec import StoredRecord

if TYPE_CHECKING:
    from tarmac.model.cluster import Cluster

SHARED = ""
"""The scope of a secret that every user of a server may use; administrators set it."""

SERVER = "server"
"""The scope of a secret for the server itself, as settings and clusters name it: no run gets it."""

_USER, _PROJECT = "user", "project"

NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
NAME_RULE = "at most 63 letters, digits, '.', '_' and '-', first and last a letter or digit"

LEAST_BYTES = 4
MOST_BYTES = 64 * 1024


def user_scope(user: str) -> str:
    """The scope of the secrets of a user, whose runs alone may use them."""
    return f"{_USER}:{user}"


def project_scope(project: str) -> str:
    """The scope of the secrets of a project, for all its runs."""
    return f"{_PROJECT}:{project}"


def project_of(scope: str) -> str | None:
    """The project with this scope; None for any other scope."""
    kind, _, project = scope.partition(":")
    return project if kind == _PROJECT else None


def owner_text(scope: str) -> str:
    """The owner of the secrets with this scope, for people."""
    kind, _, name = scope.partition(":")
    common = {SHARED: "everyone", SERVER: "the server"}
    return common.get(scope, name if kind == _USER else f"{kind} {name}")


class SecretForm(StrEnum):
    """How a run gets a secret."""

    VARIABLE = "variable"
    FILE = "file"
    GIT = "git"
    S3 = "s3"
    DOCKER = "docker"
    REGISTRY = "registry"
    """For the pull of the run's image alone: nothing in the run sees it."""


class SecretUse(StoredRecord, frozen=True, kw_only=True):
    """The use of a secret by a run: as the variable `variable`, or as a file.

    For a file, `variable` gets its path, which is `path` if a node can provide that. A missing `form` means
    the secret's own. It is filled in when the run is submitted, like `scope`, the owner of the secret that
    the name means.
    """

    name: str
    scope: str = SHARED
    form: SecretForm | None = None
    variable: str | None = None
    path: str | None = None


S3_VARIABLES = ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE")

FORM_VARIABLES: Mapping[SecretForm | None, tuple[str, ...]] = {
    SecretForm.GIT: ("GIT_SSH_COMMAND",),
    SecretForm.S3: S3_VARIABLES,
    SecretForm.DOCKER: ("DOCKER_CONFIG", "REGISTRY_AUTH_FILE"),
    SecretForm.REGISTRY: (),
}
"""The variables that forms set by themselves."""


def variables_of(use: SecretUse) -> tuple[str, ...]:
    """The variables that a use sets."""
    if use.form is SecretForm.FILE:
        return (use.variable or path_variable(use.name),)
    return FORM_VARIABLES.get(use.form, (use.variable,) if use.variable is not None else ())


def registry_secrets(uses: Sequence[SecretUse]) -> tuple[str, ...]:
    """The secrets among these with credentials for registries; those for the pull alone come first."""
    forms = (SecretForm.REGISTRY, SecretForm.DOCKER)
    return tuple(use.name for form in forms for use in uses if use.form is form)


def deploy_key(uses: Sequence[SecretUse]) -> SecretUse | None:
    """The secret among these that git uses for repositories, if any."""
    return next((use for use in uses if use.form is SecretForm.GIT), None)


def path_variable(name: str) -> str:
    """The variable with the path of a secret's file, unless a run names another."""
    return "SECRET_PATH_" + "".join(one if one.isalnum() else "_" for one in name).upper()


class Secret(SecretUse, frozen=True, kw_only=True, omit_defaults=False, forbid_unknown_fields=False):
    """A secret without its value, as runs use it that only name it. `number` counts its values so far."""

    number: int
    user: str
    created_at: float


class SecretVersion(Secret, frozen=True, kw_only=True):
    """One value of a secret, sealed with the key `key_id`.

    Runs get the newest that is not retired; the others are kept to hide them in old logs.
    """

    sealed: str
    key_id: str
    retired_at: float | None = None


class SecretName(Protocol):
    """The name of a secret, with its scope: a run's use of it, or the launch of an attempt."""

    @property
    def name(self) -> str: ...

    @property
    def scope(self) -> str: ...


SecretValues = Callable[[Sequence[SecretName]], Mapping[str, str]]
"""The present values of secrets, by name; of secrets of one name only one may be given.

Raises InvalidInput for a missing one, and Unavailable for one that cannot be opened now.
"""


def no_secrets(names: Sequence[SecretName]) -> Mapping[str, str]:
    """The `SecretValues` of an engine whose runs have none."""
    assert not names, names
    return {}


CredentialValues = Callable[["Cluster", str | None], Mapping[str, str]]
"""The present credentials of a cluster, by use: those of a login, which is the scope of the secrets.

None: those for questions about the cluster, of the user who added it. Raises as `SecretValues` does.
"""


def no_credentials(cluster: Cluster, login: str | None) -> Mapping[str, str]:
    """The `CredentialValues` of an engine whose clusters have none."""
    assert not cluster.credentials, (cluster, login)
    return {}


class SecretRecords(Protocol):
    """The durable record of secrets: sealed, one row for each value of a secret.

    Errors are those of `ports.Store`. After a normal return of a write, the change survives power loss.
    """

    def versions(self, names: Sequence[str] | None = None) -> list[SecretVersion]:
        """Every version (of the secrets with these names), by name, scope and number."""

    def add(self, version: SecretVersion) -> bool:
        """Store a new version; False, and nothing is stored, if one has that scope, name and number."""

    def reseal(self, versions: Sequence[SecretVersion]) -> None:
        """Replace `sealed` and `key_id` of these versions, in one transaction; unknown ones are ignored."""

    def retire(self, secret: SecretName, *, at: float) -> None:
        """Retire every version that is not retired yet; does nothing if there is none."""

    def purge(self, secret: SecretName) -> None:
        """Remove every version; does nothing if there is none."""
