"""Reads `[containers]` of the settings, and its tables of clusters. Called by `settings`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tarmac.model.containers import ContainerRules, ContainerSettings, ContainerUse
from tarmac.model.text import nearest
from tarmac.node.container.drivers import AUTO, DRIVERS
from tarmac.node.container.reference import canonical_registry, is_registry, is_repository
from tarmac.server.setting_tables import OF_A_CLUSTER

Refuse = Callable[..., None]
"""Notes a problem, with a `hint`."""

ReadTable = Callable[[Any, str], Mapping[str, Any]]
"""The values of a cluster's table, by key; the other argument is the prefix of keys in messages."""


def container_settings(values: Mapping[str, Any], read_table: ReadTable, refuse: Refuse) -> ContainerSettings:
    """The settings. A cluster's own table overrides the general keys, which apply to the rest."""
    own = {
        name: read_table({**_plain(values), **table}, f"containers.clusters.{name}.")
        for name, table in values["clusters"].items()
        if _is_table(table, name, refuse)
    }
    return ContainerSettings(
        default=_rules(values, "containers.", refuse),
        clusters={name: _rules(table, f"containers.clusters.{name}.", refuse) for name, table in own.items()},
    )


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {item.key: values[item.key] for item in OF_A_CLUSTER if values[item.key] is not None}


def _is_table(table: Any, name: str, refuse: Refuse) -> bool:
    if isinstance(table, dict):
        return True
    refuse(f"containers.clusters.{name}: a table is expected, not {table!r:.60}")
    return False


def _rules(values: Mapping[str, Any], prefix: str, refuse: Refuse) -> ContainerRules:
    shows = values["shows"]
    for path in shows or ():
        if not path.startswith("/") or ".." in path.split("/"):
            refuse(f"{prefix}shows: an absolute path without '..' is expected, not {path!r:.100}")
    return ContainerRules(
        use=ContainerUse(_one_of(values["use"], list(ContainerUse), f"{prefix}use", refuse)),
        without=tuple(values["without"]),
        driver=_one_of(values["driver"], [AUTO, *DRIVERS], f"{prefix}driver", refuse),
        shows=None if shows is None else tuple(shows),
        mirrors=_mirrors(values["mirrors"], f"{prefix}mirrors", refuse),
    )


def _mirrors(values: Mapping[str, Any], what: str, refuse: Refuse) -> Mapping[str, str]:
    """The mirror of each registry, which is tried first: `HOST[:PORT][/REPOSITORY]`."""
    for registry, mirror in values.items():
        place, slash, repository = str(mirror).partition("/")
        if not (is_registry(registry) and is_registry(place) and (not slash or is_repository(repository))):
            refuse(
                f"{what}: {registry!r:.100} = {mirror!r:.100} is no mirror of a registry",
                hint='such as { "docker.io" = "mirror.example.org:5000" }',
            )
    return {canonical_registry(registry): str(mirror) for registry, mirror in values.items()}


def _one_of(value: str, allowed: list[str], what: str, refuse: Refuse) -> str:
    if value in allowed:
        return value
    refuse(f"{what}: {value!r} is none of {', '.join(allowed)}", hint=nearest(value, allowed))
    return allowed[0]
