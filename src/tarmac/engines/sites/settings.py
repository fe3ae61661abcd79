"""The settings that clusters at sites have in common, checked without access. Called by the kinds."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tarmac.engines.hosts import setting_values as values
from tarmac.engines.hosts.installing import Supplies
from tarmac.engines.slurm.settings import OF_A_POOL, SlurmSettings, pools_of
from tarmac.model.cluster import Cluster
from tarmac.model.errors import InvalidInput
from tarmac.model.secret import SERVER, SecretUse

URL = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~/+@:%-]*)?")
A_URL = "a URL such as https://site.example.org/api"
OF_A_SITE_POOL = (*OF_A_POOL, "gpus_per_node")
FIELDS = ("url", "directory", "poll", "python", "pools", *OF_A_SITE_POOL)
POLL_S = 10.0


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
    directory = values.path_of(settings, "directory")
    if directory is None:
        hint = (
            "one below the work directory of your account there, for this cluster alone: /scratch/ada/tarmac"
        )
        raise InvalidInput(f"the engine {engine} needs the setting 'directory'", hint=hint)
    return SiteSettings(
        url=needed(settings, "url", engine).rstrip("/"),
        poll_s=values.seconds_of(settings, "poll", "between two polls, such as 10s") or POLL_S,
        slurm=SlurmSettings(
            directory=directory,
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
            hint=f"name a secret for each of {sets}: credentials: {{{allowed[0][0]}: NAME, ...}}",
        )


def credential_values(cluster: Cluster, supplies: Supplies) -> Mapping[str, str]:
    """The current values of a cluster's credentials, by their use. Raises Unavailable."""
    uses = [SecretUse(name=name, scope=SERVER) for name in cluster.credentials.values()]
    found = supplies.secrets(uses)
    return {use: found[name].strip() for use, name in cluster.credentials.items()}


def refuse_pool_rules(cluster: Cluster) -> None:
    """Refuse rules of pools, which are for clusters where tarmac places."""
    if cluster.pools:
        raise InvalidInput(
            "the rules of pools are for clusters where tarmac places",
            hint="pools of a site are 'pools' in its settings: {train: {partition: gpu}}",
        )
