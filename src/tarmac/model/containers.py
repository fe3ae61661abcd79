"""The settings of a server for containers, by cluster. Read by `server`, and carried by engines."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from msgspec import Struct, field


class ContainerUse(StrEnum):
    """Whether runs start in the images that they name: `required` refuses runs without an image."""

    AUTO = "auto"
    NONE = "none"
    REQUIRED = "required"


class ContainerRules(Struct, frozen=True, kw_only=True):
    """The container rules of one cluster.

    `without` are the users who may run without an image if one is required. `driver` is the program that
    makes containers ("auto": the first that works on the node). A run may bind only paths below `shows` into
    its container (None: any). Nodes try `mirrors` for images first, by the registry that an image names.
    """

    use: ContainerUse = ContainerUse.AUTO
    without: tuple[str, ...] = ()
    driver: str = "auto"
    shows: tuple[str, ...] | None = None
    mirrors: Mapping[str, str] = field(default_factory=dict)


class ContainerSettings(Struct, frozen=True, kw_only=True):
    """The rules of all clusters, by name for those that have their own."""

    default: ContainerRules = ContainerRules()
    clusters: Mapping[str, ContainerRules] = field(default_factory=dict)

    def of(self, cluster: str) -> ContainerRules:
        """The rules of a cluster."""
        return self.clusters.get(cluster, self.default)

    def of_target(self, cluster: str | None) -> Mapping[str, ContainerRules]:
        """The rules that may apply to a run, by cluster ("": all others); without a target all of them."""
        if cluster is not None:
            return {cluster: self.of(cluster)}
        return {"": self.default, **self.clusters}


NO_CONTAINER_SETTINGS = ContainerSettings()
