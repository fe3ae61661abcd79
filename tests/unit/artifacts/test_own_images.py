"""The local image of a run for a site: always part of its code, and sent to a site once for its content."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tarmac.artifacts.code.packs import LARGE_BYTES
from tarmac.artifacts.code.store import DirectoryCodeStore, with_own_image
from tarmac.dialects.dialect import Extras
from tarmac.engines.hosts.host import local_host
from tarmac.engines.hosts.installing import bring_code
from tarmac.model.codec import replace
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import LocalDirectory, Rehearsal, RunSpec
from tarmac.node.attempt.clearing import clear_copies
from tarmac.node.hooks.code import make_tree
from tarmac.systems.registry import read

PROJECT = 'entry_points: {main: {command: "python3 train.py"}}'
IMAGE = os.urandom(LARGE_BYTES)


class Sent:
    """What a store sends to a site: the streams by name, and their bytes."""

    def __init__(self, store: DirectoryCodeStore) -> None:
        self._store = store
        self.sizes: list[tuple[str, int]] = []

    def parts(self, digest: str) -> Sequence[str]:
        return self._store.parts(digest)

    def stream(self, digest: str) -> Iterator[bytes]:
        pieces = list(self._store.stream(digest))
        self.sizes.append((digest, sum(map(len, pieces))))
        yield from pieces


@pytest.fixture
def project(tmp_path: Path) -> Path:
    directory = tmp_path / "project"
    (directory / "images").mkdir(parents=True)
    (directory / "train.py").write_text("print('one')\n")
    (directory / "images/own.sif").write_bytes(IMAGE)
    (directory / "other.sif").write_bytes(b"other")
    return directory


@pytest.fixture
def store(tmp_path: Path) -> DirectoryCodeStore:
    return DirectoryCodeStore(tmp_path / "code")


def spec_of(project: Path, path: str, exclude: str) -> RunSpec:
    """The spec of a configuration of Mantik with this image and these exclusions."""
    text = (
        f"UnicoreApiUrl: https://a.b/rest/core\nResources: {{Queue: batch}}\nExclude: {exclude}\n"
        f"Environment: {{Apptainer: {{Path: {path}}}}}\n"
    )
    extras = Extras(files=(("MLproject", PROJECT),))
    return read(text, filename="b.yaml", directory=str(project), dialect="mantik", extras=extras).spec


def code_of(spec: RunSpec) -> LocalDirectory:
    code = with_own_image(spec).code
    assert isinstance(code, LocalDirectory)
    return code


def copied(store: DirectoryCodeStore, digest: str, target: Path) -> set[str]:
    """The files of a snapshot, made in a directory as a runner makes them."""
    site = target / "site"
    host = local_host(site)
    bring_code(host, str(host.layout.code(digest)), store, place="here")
    made = target / "work"
    made.mkdir()
    make_tree(str(host.layout.code(digest)), str(made), lambda: None)
    return {str(path.relative_to(made)) for path in made.rglob("*") if path.is_file()}


@pytest.mark.parametrize("exclude", ["['*.sif']", "[images/]", "['**']", "[]"])
def test_no_exclusion_removes_the_image_of_the_run(
    project: Path, store: DirectoryCodeStore, tmp_path: Path, exclude: str
) -> None:
    """K2, K9."""
    digest = store.snapshot(code_of(spec_of(project, "images/own.sif", exclude)))
    found = copied(store, digest, tmp_path)
    assert "images/own.sif" in found
    assert ("other.sif" in found) == (exclude in ("[]", "[images/]"))
    assert (tmp_path / "work/images/own.sif").read_bytes() == IMAGE


def test_an_image_outside_the_project_comes_along(
    project: Path, store: DirectoryCodeStore, tmp_path: Path
) -> None:
    """K2: a relative path may lead out of the project, and a link may."""
    (tmp_path / "beside.sif").write_bytes(b"beside")
    for number, path in enumerate(("../beside.sif", str(tmp_path / "beside.sif"), "link.sif")):
        if path == "link.sif":
            (project / path).symlink_to(tmp_path / "beside.sif")
        digest = store.snapshot(code_of(spec_of(project, path, "[]")))
        place = tmp_path / str(number)
        place.mkdir()
        assert Path(path).name in copied(store, digest, place)
        assert (place / "work" / Path(path).name).read_bytes() == b"beside"


def test_an_image_counts_for_no_limit_of_code(project: Path, store: DirectoryCodeStore) -> None:
    code = replace(code_of(spec_of(project, "images/own.sif", "[]")), limit_bytes=1000)
    store.check_sent(replace(code, digest=store.snapshot(code)))
    with pytest.raises(InvalidInput, match="more than the"):
        store.snapshot(replace(code, extra_files={}))
    with pytest.raises(InvalidInput, match="more than the"):
        store.check_sent(replace(code, digest=store.snapshot(code), extra_files={}))


def test_an_image_is_sent_to_a_site_once_for_many_runs(
    project: Path, store: DirectoryCodeStore, tmp_path: Path
) -> None:
    """K2: by its content, whatever else changes in the project, and whatever it is called."""
    host, sent = local_host(tmp_path / "site"), Sent(store)
    for number in range(5):
        (project / "train.py").write_text(f"print({number})\n")
        (project / "images/own.sif").rename(project / f"images/{number}.sif")
        digest = store.snapshot(code_of(spec_of(project, f"images/{number}.sif", "[]")))
        for _ in range(2):
            bring_code(host, str(host.layout.code(digest)), sent, place="there")
        (project / f"images/{number}.sif").rename(project / "images/own.sif")
    large = [name for name, size_bytes in sent.sizes if size_bytes >= LARGE_BYTES]
    assert len(sent.sizes) == 6
    assert large == store.parts(digest)


def test_an_image_stays_at_a_site_as_long_as_code_that_needs_it(
    project: Path, store: DirectoryCodeStore, tmp_path: Path
) -> None:
    host = local_host(tmp_path / "site")
    digests = []
    for number in range(2):
        (project / "train.py").write_text(f"print({number})\n")
        digests.append(store.snapshot(code_of(spec_of(project, "images/own.sif", "[]"))))
        bring_code(host, str(host.layout.code(digests[-1])), store, place="there")
    code = tmp_path / "site/code"
    for path in code.iterdir():
        os.utime(path, (1.0, 1.0))
    os.utime(code / digests[1])
    (part,) = store.parts(digests[1])
    assert clear_copies(str(tmp_path / "site"), [], unused_days=1.0, version="v") == 1
    assert {path.name for path in code.iterdir()} == {"packs", part, digests[1]}
    os.utime(code / digests[1], (1.0, 1.0))
    assert clear_copies(str(tmp_path / "site"), [], unused_days=1.0, version="v") == 2
    assert list((code / "packs").iterdir()) == []


def test_a_missing_image_is_refused_with_its_path(project: Path, store: DirectoryCodeStore) -> None:
    with pytest.raises(InvalidInput, match=r"cannot be read: No such file") as refused:
        store.snapshot(code_of(spec_of(project, "absent.sif", "[]")))
    assert refused.value.problems[0].file == str(project / "absent.sif")


def test_an_image_of_the_site_and_a_rehearsal_take_nothing_along(project: Path) -> None:
    spec = spec_of(project, "images/own.sif", "[]")
    assert code_of(replace(spec, rehearsal=Rehearsal(nodes=1, slots_per_node=1))).extra_files == {}
    assert spec.site is not None
    assert spec.site.apptainer is not None
    remote = replace(spec, site=replace(spec.site, apptainer=replace(spec.site.apptainer, remote=True)))
    assert code_of(remote).extra_files == {}
