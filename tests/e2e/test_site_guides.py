"""The pages about sites do what they say: files are written, commands typed, over the sites of tests."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from firecrest_calls import SYSTEM
from firecrest_far_side import FarSide
from firecrest_server import Client, Firecrest
from firecrest_server import serving as serving_firecrest
from guides import newcomer, page
from slurm_clusters import Missing, running_slurm
from unicore_sites import serving as serving_unicore

pytestmark = [pytest.mark.real_engine, pytest.mark.xdist_group("site-guides"), pytest.mark.timeout(600)]


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    try:
        directory = tmp_path_factory.mktemp("cluster") / "slurm"
        with running_slurm(directory, cpus_per_node=8, gpus="gh200:4", accounting=True) as variables:
            yield variables
    except Missing as missing:
        pytest.skip(str(missing))


def of_this_site(text: str, places: dict[str, str], more: dict[str, str]) -> str:
    """A page with the addresses, directory and partition of a site of tests, and more settings."""
    for documented, here in places.items():
        assert documented in text
        text = text.replace(documented, here)
    more = {**more, "python": sys.executable, "poll": "1s"}
    options = " ".join(f"--set {name}={value}" for name, value in more.items())
    text = re.sub(r"(clusters add \w+ --engine \w+)", rf"\1 {options}", text)
    lines = "".join(f"  {name}: {value}\n" for name, value in more.items())
    return text.replace("\nsettings:\n", f"\nsettings:\n{lines}")


def test_the_page_of_firecrest_does_what_it_says(slurm: dict[str, str], tmp_path: Path) -> None:
    (far := tmp_path / "far").mkdir()
    client = Client("the secret of a client", FarSide("root", (), slurm))
    with ExitStack() as closing:
        server = closing.enter_context(serving_firecrest(Firecrest({"a-client": client}, (str(far),))))
        reader = closing.enter_context(newcomer(tmp_path / "ada"))
        (reader.home / "id.txt").write_text("a-client\n")
        (reader.home / "secret.txt").write_text("the secret of a client\n")
        places = {
            "https://api.example.org/hpc/firecrest/v2": server.url,
            "https://auth.example.org/token": server.token_url,
            "/capstor/scratch/ada": str(far),
            "system=daint": f"system={SYSTEM}",
            "system: daint": f"system: {SYSTEM}",
            "partition=normal": "partition=batch",
            "partition: normal": "partition: batch",
        }
        reader.follow(of_this_site(page("operating/sites.md"), places, {}))


def test_the_page_of_unicore_does_what_it_says(slurm: dict[str, str], tmp_path: Path) -> None:
    with ExitStack() as closing:
        served = closing.enter_context(serving_unicore(tmp_path / "far", **slurm))
        reader = closing.enter_context(newcomer(tmp_path / "ada"))
        (reader.home / "password.txt").write_text("pass of ada\n")
        places = {
            "https://uc.example.org:9112/JUWELS/rest/core": served.url,
            "/p/project/ab12/ada": str(served.site.users["ada"].directory),
            "account=ab12": "account=proj",
            "account: ab12": "account: proj",
            "partition=booster": "partition=batch",
            "partition: booster": "partition: batch",
        }
        reader.follow(of_this_site(page("operating/unicore.md"), places, {"ca": str(served.ca)}))
