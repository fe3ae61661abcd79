"""What was brought to a site goes when no attempt uses it any more, and never before."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from tarmac.engines.attempts.layout import Layout
from tarmac.node.attempt import clearing
from tarmac.node.attempt.document import Launch, NodeSettings, to_json

USED, OLD, NEW = "a" * 64, "b" * 64, "c" * 64
DAY_S = 86_400.0


class Site:
    """A directory at a site, with what was brought there."""

    def __init__(self, home: Path) -> None:
        self.layout = Layout(home)
        self.home = home

    def copy(self, name: str, *, age_days: float) -> None:
        """A copy of code, last used so long ago."""
        (self.home / "code/packs").mkdir(parents=True, exist_ok=True)
        (self.home / "code/packs" / f"{name}.pack").touch()
        self._aged(self.home / "code" / name, age_days)

    def version(self, name: str, *, age_days: float) -> str:
        """A version of tarmac; the package of its runner."""
        package = self.home / "node" / name / "tarmac/node"
        package.mkdir(parents=True)
        self._aged(package.parents[1], age_days)
        return str(package)

    def attempt(self, run_id: str, code: str, package: str) -> None:
        directory = self.layout.runs / run_id / "attempts/1"
        directory.mkdir(parents=True)
        path = str(self.layout.code(code))
        document = Launch(
            f"{run_id}.1", number=1, token="t", nodes=(), code=path, settings=NodeSettings(f"{package}/shim")
        )
        (directory / "attempt.json").write_text(json.dumps(to_json(document)))

    def left(self) -> set[str]:
        code = {path.name for path in (self.home / "code").iterdir() if path.is_file()}
        packs = {path.stem for path in (self.home / "code/packs").iterdir()}
        assert packs == {name for name in code if len(name) == 64}
        return code | {path.name for path in (self.home / "node").iterdir()}

    def _aged(self, path: Path, age_days: float) -> None:
        if not path.exists():
            path.touch()
        at = time.time() - age_days * DAY_S
        os.utime(path, (at, at))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def test_what_nobody_used_for_long_goes(site: Site) -> None:
    site.version("v3", age_days=100)
    for name, age_days in ((USED, 40), (OLD, 40), (NEW, 20)):
        site.copy(name, age_days=age_days)
    site.attempt("waits-for-weeks", USED, site.version("v1", age_days=40))
    site.attempt("ended", OLD, site.version("v2", age_days=40))
    (site.home / "code/.partial-x").touch()
    os.utime(site.home / "code/.partial-x", (0, 0))
    assert clearing.clear_copies(str(site.home), {"waits-for-weeks"}, unused_days=30, version="v3") == 2
    assert site.left() == {USED, NEW, "v1", "v3"}


def test_a_site_where_nothing_was_brought_yet_has_nothing_to_clear(site: Site) -> None:
    assert clearing.clear_copies(str(site.home), {"r1"}, unused_days=0, version="v1") == 0
