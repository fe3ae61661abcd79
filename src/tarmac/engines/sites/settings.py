"""The settings that clusters at sites have in common, checked without access. Called by the kinds."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.slurm.settings import OF_A_POOL, SlurmSettings, pools_of
from tarmac.model.cluster import Cluster
from tarmac.model.errors import InvalidInput, Unavailable
from tarmac.model.kinds import setting_values as values
from tarmac.model.secret import owner_text, user_scope

URL = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/+@:%-]*)?")
A_URL = "a URL such as https://site.example.org/api"
OF_A_SITE_POOL = (*OF_A_POOL, "gpus_per_node")
FIELDS = ("url", "directory", "poll", "python", "pools", *OF_A_SITE_POOL)
POLL_S = 10.0
USER = "{user}"
"""Replaced in the directory by the user whose login it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteSettings:
    """The address of a site's interface, its pools and directory, and the least time between two polls."""

    url: str
    slurm: SlurmSettings
    poll_s: float = POLL_S


def read_settings(settings: Mapping[str, Any], engine: str, *, more: Sequence[str] = ()) -> SiteSettings:
    """The common settings of a description; raises InvalidInput with the first mistake.

    `more` are the names of others that the engine has.
    """
    values.refuse_unknown(settings, (*FIELDS, *more), f"the engine {engine}")
    given = settings.get("directory")
    path = given.replace(USER, "user") if isinstance(given, str) else given
    if values.path_of({"directory": path}, "directory") is None:
        hint = (
            "one below the work directory of your account there, for this cluster alone: /scratch/ada/tarmac"
        )
        raise InvalidInput(f"the engine {engine} needs the setting 'directory'", hint=hint)
    return SiteSettings(
        url=needed(settings, "url", engine).rstrip("/"),
        poll_s=values.seconds_of(settings, "poll", "between two polls, such as 10s") or POLL_S,
        slurm=SlurmSettings(
            directory=Path(str(given)),
            pools=pools_of(settings, engine, OF_A_SITE_POOL),
            python=values.text_of(settings, "python", values.PROGRAM, values.A_PROGRAM) or "python3",
        ),
    )


def needed(settings: Mapping[str, Any], name: str, engine: str) -> str:
    """A URL that an engine cannot do without."""
    found = values.text_of(settings, name, URL, A_URL)
    if found is None:
        raise InvalidInput(f"the engine {engine} needs the setting {name!r}", hint=A_URL)
    return found


def check_credentials(given: Mapping[str, str], allowed: Sequence[Sequence[str]], engine: str) -> None:
    """Refuse credentials that are none of the allowed sets."""
    if not any(set(given) == set(names) for names in allowed):
        sets = " or ".join(" and ".join(names) for names in allowed)
        raise InvalidInput(
            f"the engine {engine} has the credentials {', '.join(sorted(given)) or 'none'}",
            hint=f"name a secret for each of {sets}: --credential {allowed[0][0]}=SECRET ...",
        )


def credential_values(cluster: Cluster, supplies: Supplies, login: str | None = None) -> Mapping[str, str]:
    """The current credentials of a login at a cluster, by their use. Raises Unavailable."""
    try:
        found = supplies.credentials(cluster, login)
    except InvalidInput as error:
        raise Unavailable(error.message, hint=error.hint) from None
    return {use: value.strip() for use, value in found.items()}


def of_login(
    settings: SiteSettings, supplies: Supplies, cluster: Cluster, login: str | None
) -> tuple[SiteSettings, Supplies]:
    """The settings and supplies for the runs of a login (None: of the user who added the cluster).

    The directory may name its user.
    """
    directory = Path(of_user(str(settings.slurm.directory), cluster, login))
    own = replace(settings, slurm=replace(settings.slurm, directory=directory))
    return own, supplies.stored_in(directory)


def of_user(text: str, cluster: Cluster, login: str | None) -> str:
    """The text of a setting for the user whose login it is."""
    user = owner_text(login or user_scope(cluster.added_by))
    return text.replace(USER, re.sub(r"[^A-Za-z0-9._@+-]", "-", user))
