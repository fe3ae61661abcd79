"""Images of the nodes of several clusters: `server/storage/image_service.py`."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from tarmac.model.abilities import KeptImage
from tarmac.model.actor import Actor, ActorRole
from tarmac.model.codec import replace
from tarmac.model.errors import Forbidden, InvalidInput, NotFound, Refused, Unavailable
from tarmac.server.storage.image_service import ImageService

ADMIN = Actor(user="ada", roles=frozenset({ActorRole.ADMIN}))
VIEWER = Actor(user="eve", roles=frozenset({ActorRole.VIEWER}))
IMAGE = KeptImage(
    node="n1",
    name="ubuntu:24.04",
    digest=f"sha256:{'a' * 64}",
    size_bytes=1,
    disk_bytes=2,
    fetched_at=3.0,
    used_at=4.0,
    in_use=False,
)


@dataclass
class Keeper:
    """An engine with images; it hangs while `gate` is clear, and fails with `trouble`."""

    kept: list[KeptImage]
    trouble: Exception | None = None
    gate: threading.Event = field(default_factory=threading.Event)
    cleared: list[dict[str, float | None]] = field(default_factory=list)
    starts: Sequence[str] = ()

    def images(self) -> Sequence[KeptImage]:
        assert self.gate.wait(30)
        if self.trouble is not None:
            raise self.trouble
        return list(self.kept)

    def remove_image(self, image: KeptImage) -> bool:
        if image.digest in self.starts:
            return False
        self.kept.remove(image)
        return True

    def clear_images(self, *, limit_bytes: int | None, unused_days: float | None) -> int:
        self.cleared.append({"limit_bytes": limit_bytes, "unused_days": unused_days})
        return 0


def keeper(*kept: KeptImage, trouble: Exception | None = None) -> Keeper:
    found = Keeper(list(kept), trouble)
    found.gate.set()
    return found


def service(**engines: Keeper) -> ImageService:
    by_cluster = {"" if name == "own" else name: engine for name, engine in engines.items()}
    return ImageService(lambda: by_cluster, own="local", unused_days=7.0, answer_s=5.0)


def test_a_cluster_that_hangs_or_fails_hides_no_other() -> None:
    hanging = Keeper([IMAGE])
    images = ImageService(
        lambda: {"": keeper(IMAGE), "far": hanging, "down": keeper(trouble=Unavailable("it is away"))},
        own="local",
        answer_s=0.2,
    )
    found = images.all(VIEWER)
    assert [each.cluster for each in found.images] == ["local"]
    assert found.troubles == {"far": "no answer yet", "down": "it is away"}
    hanging.gate.set()


@pytest.mark.parametrize(
    "reference", ["ubuntu:24.04", "docker.io/library/ubuntu:24.04", "a" * 12, f"sha256:{'a' * 12}"]
)
def test_an_image_is_removed_by_name_or_digest_from_all_its_nodes(reference: str) -> None:
    near, far = keeper(IMAGE, replace(IMAGE, node="n2")), keeper(replace(IMAGE, name="other:1"))
    gone = service(own=near, far=far).remove(ADMIN, reference)
    assert near.kept == []
    assert {each.node for each in gone} >= {"n1", "n2"}


def test_what_is_used_on_one_node_is_removed_from_none() -> None:
    near = keeper(IMAGE, replace(IMAGE, node="n2", in_use=True))
    with pytest.raises(Refused, match=r"a run uses ubuntu:24\.04 on n2"):
        service(own=near).remove(ADMIN, "ubuntu:24.04")
    assert len(near.kept) == 2
    starting = keeper(IMAGE)
    starting.starts = [IMAGE.digest]
    with pytest.raises(Refused, match="on n1"):
        service(own=starting).remove(ADMIN, "ubuntu:24.04")


def test_what_is_no_image_or_several_is_refused() -> None:
    twin = replace(IMAGE, name="twin:1", digest=f"sha256:{'a' * 63}b")
    images = service(own=keeper(IMAGE, twin))
    with pytest.raises(InvalidInput, match="several digests"):
        images.remove(ADMIN, "a" * 12)
    for other in ("debian:12", "aaa", "No Name"):
        with pytest.raises(NotFound):
            images.remove(ADMIN, other)
    with pytest.raises(NotFound):
        images.all(ADMIN, cluster="nowhere")
    with pytest.raises(Forbidden):
        images.remove(VIEWER, "ubuntu:24.04")


def test_every_engine_is_asked_to_clear_its_nodes() -> None:
    near, far = keeper(), keeper()
    service(own=near, far=far).clear()
    assert near.cleared == far.cleared == [{"limit_bytes": None, "unused_days": 7.0}]
