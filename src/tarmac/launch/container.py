"""The container of a run's attempts. Called by `compose` and `environment`."""

from __future__ import annotations

from tarmac.model.secret import registry_secrets
from tarmac.model.spec import RunSpec
from tarmac.node.attempt.document import ContainerLaunch
from tarmac.node.container.reference import ALWAYS


def container_launch(spec: RunSpec) -> ContainerLaunch | None:
    """The container of a run; None: it has none, or its site's own script starts it (`site_steps`)."""
    image = spec.environment.image
    if image is None or spec.environment.without_container or spec.site is not None:
        return None
    return ContainerLaunch(
        image=image,
        pull=ALWAYS if spec.environment.pull_always else "",
        credentials=registry_secrets(spec.secrets),
        shared_memory_bytes=spec.environment.shared_memory_bytes,
    )
