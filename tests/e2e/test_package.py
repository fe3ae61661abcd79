"""The package as people install it: wheel and sdist contain the page, and need neither Node nor a network."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from tarmac.server.page.files import BUILT

pytestmark = pytest.mark.heavy

ROOT = Path(__file__).resolve().parents[2]
PAGE = "tarmac/server/page/built"
LIBRARIES = re.compile(r"^(\S+) (\S+) \(\S+\)$", re.MULTILINE)
"""How each library begins in the file of licences: its name, version and licence."""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a checkout has after `make page`."""
    if not (BUILT / "entry.json").exists():
        pytest.skip("the page is not built: make page")
    copy = tmp_path_factory.mktemp("package") / "checkout"
    copy.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "src/tarmac", copy / "src/tarmac", ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="module")
def sdist(checkout: Path) -> Path:
    return built("sdist", checkout)


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel from the unpacked sdist."""
    place = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(sdist) as archive:
        archive.extractall(place, filter="data")
    [directory] = place.iterdir()
    return built("wheel", directory)


def built(kind: str, directory: Path) -> Path:
    """What the build backend makes, on a machine without Node: no program is found."""
    script = f"import sys; from setuptools import build_meta; print(build_meta.build_{kind}(sys.argv[1]))"
    output = subprocess.run(
        [sys.executable, "-c", script, directory / "dist"],
        cwd=directory, env={"PATH": "/nonexistent"}, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    return directory / "dist" / output.splitlines()[-1]


def test_sdist_and_wheel_contain_the_page_and_the_licences_of_its_libraries(sdist: Path, wheel: Path) -> None:
    files = {path.name for path in BUILT.iterdir()}
    with tarfile.open(sdist) as archive:
        names = [Path(name) for name in archive.getnames()]
    assert {name.name for name in names if PAGE in str(name.parent)} == files
    with zipfile.ZipFile(wheel) as archive:
        assert {Path(name).name for name in archive.namelist() if name.startswith(PAGE)} == files
        licences = archive.read(f"{PAGE}/licences.txt").decode()
    found = dict(LIBRARIES.findall(licences))
    wanted = json.loads((ROOT / "web/package.json").read_text())["dependencies"]
    assert {name: found.get(name) for name in wanted} == wanted
    texts = licences.split("-" * 80)
    assert len(texts) == len(found) > len(wanted)
    assert all("permission" in text.lower() for text in texts)


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a fresh environment with the wheel; its dependencies are those of the tests."""
    place = tmp_path_factory.mktemp("fresh") / "environment"
    venv.create(place, with_pip=False, symlinks=True)
    [packages] = place.glob("lib/python*/site-packages")
    options = ("--no-index", "--no-deps", "--no-compile", "--quiet")
    pip = [sys.executable, "-m", "pip", "--python", place / "bin/python", "install", *options, wheel]
    subprocess.run(pip, check=True, capture_output=True)
    others = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "dependencies.pth").write_text("\n".join(others))
    return place / "bin"


def served(programs: Path, home: Path) -> dict[str, tuple[int, str]]:
    """The answers of its server to a browser: status and text of the document and its files."""
    environment = {"TARMAC_HOME": str(home), "HOME": str(home), "PATH": str(programs)}
    script = SCRIPT.format(package=PAGE)
    result = subprocess.run(
        [programs / "python", "-c", script],
        env=environment,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


SCRIPT = """
import json, http.cookiejar, re, sys, urllib.error, urllib.request
import tarmac
assert "{package}".split("/")[0] == tarmac.__name__ and sys.prefix in tarmac.__file__, tarmac.__file__
def get(url):
    try:
        with opener.open(url) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
opener.addheaders = [("Accept", "text/html")]
with tarmac.Client() as client:
    try:
        url = client.page_address().url
        found = {{"/": get(url)}}
        base = url.partition("/enter")[0]
        for path in re.findall('(?:src|href)="(/assets/[^"]+)"', found["/"][1]):
            found[path] = get(base + path)
    finally:
        client.stop_server()
print(json.dumps(found))
"""


def test_the_page_answers_after_an_installation_without_node_and_network(
    installed: Path, tmp_path: Path
) -> None:
    found = served(installed, tmp_path)
    assert {status for status, _ in found.values()} == {200}
    assert len(found) > 3
    assert '<div id="app">' in found["/"][1]
    assert any("createElement" in text for path, (_, text) in found.items() if path.endswith(".js"))


def test_a_checkout_without_built_files_says_the_command(installed: Path, tmp_path: Path) -> None:
    [package] = installed.parent.glob("lib/python*/site-packages/tarmac")
    shutil.move(package / "server/page/built", tmp_path / "built")
    status, text = served(installed, tmp_path)["/"]
    assert status == 503
    assert "<pre>make page</pre>" in text
