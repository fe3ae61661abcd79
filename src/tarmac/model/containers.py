"""What the settings of a server say of containers, for each cluster. Read by `server`, carried by engines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ContainerUse(StrEnum):
    """Whether runs are started in the images that they name: `required` refuses those without."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerRules:
    """Those of one cluster.

    `without`: the users who may run without an image where one is required. `driver`: the program that makes
    containers ("auto": whichever works on the node). What a run binds into its container lies below `shows`
    (None: anywhere). Nodes ask `mirrors` for images first, by the registry that an image names.
    """

    use: ContainerUse = ContainerUse.AUTO
    without: tuple[str, ...] = ()
    driver: str = "auto"
    shows: tuple[str, ...] | None = None
    mirrors: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSettings:
    """The rules of all clusters, by name where they have their own."""

    default: ContainerRules = ContainerRules()
    clusters: Mapping[str, ContainerRules] = field(default_factory=dict)

    def of(self, cluster: str) -> ContainerRules:
        """Those that hold on a cluster."""
        return self.clusters.get(cluster, self.default)

    def of_target(self, cluster: str | None) -> Mapping[str, ContainerRules]:
        """Those that may hold for a run, by cluster ("": all others): without a target it may go to any."""
        if cluster is not None:
            return {cluster: self.of(cluster)}
        return {"": self.default, **self.clusters}


NO_CONTAINER_SETTINGS = ContainerSettings()
