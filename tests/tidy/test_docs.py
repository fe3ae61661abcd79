"""The documents keep up with the code: links lead somewhere, variables are explained, diagrams current.

Run by `make check`.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from source_tree import ROOT, package_modules

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
VARIABLE = re.compile(r"\bTARMAC_[A-Z0-9_]*[A-Z0-9]\b")
TEST = re.compile(r"`(test_\w+)`")
DEFINED = re.compile(r"^def (test_\w+)\(", re.MULTILINE)
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def test_every_link_leads_somewhere() -> None:
    assert [broken for page in _pages() for broken in broken_links(page, page.read_text())] == []


def test_a_broken_link_would_be_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    (tmp_path / "other.md").write_text("# A heading: here\n")
    good = "[a](other.md) [b](other.md#a-heading-here) [c](https://example.org) [d](#this)\n# This\n"
    assert not list(broken_links(page, good))
    assert len(list(broken_links(page, "[a](missing.md) [b](other.md#nothing) [c](#nowhere)"))) == 3


def test_every_test_that_a_page_names_exists() -> None:
    named = {name for page in _pages() for name in TEST.findall(page.read_text())}
    files = (ROOT / "tests").rglob("test_*.py")
    known = {name for file in files for name in (file.stem, *DEFINED.findall(file.read_text()))}
    assert named - known == set()


def test_every_variable_is_explained() -> None:
    explained = set(VARIABLE.findall((ROOT / "docs/using/variables.md").read_text()))
    used = {name for module in package_modules() for name in VARIABLE.findall(module.text)}
    assert used - explained == set(), "say in docs/using/variables.md what they are"
    assert explained - used == set(), "docs/using/variables.md explains what the code does not know"


def test_every_page_can_be_found() -> None:
    contributing = "docs/contributing"
    for index, folders in (
        ("docs/README.md", ("docs", "docs/using", "docs/using/guides", "docs/operating", contributing)),
        ("docs/using/dialects/README.md", ("docs/using/dialects",)),
        (f"{contributing}/decisions/README.md", (f"{contributing}/decisions",)),
        ("CONTRIBUTING.md", (f"{contributing}/checklists",)),
    ):
        page = ROOT / index
        linked = {(page.parent / target).resolve() for target in LINK.findall(page.read_text())}
        pages = {found for folder in folders for found in (ROOT / folder).glob("*.md")}
        assert pages - linked - {page} == set(), page


def test_the_lifecycle_page_is_current() -> None:
    tool = [sys.executable, "tools/lifecycle_diagram.py", "--check"]
    result = subprocess.run(tool, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_changelog_has_a_place_for_the_next_change() -> None:
    headings = HEADING.findall((ROOT / "CHANGELOG.md").read_text())
    assert headings[:2] == ["Changelog", "Unreleased"]


def test_every_example_is_numbered_and_explained() -> None:
    folders = [path for path in (ROOT / "examples").iterdir() if path.is_dir()]
    unnumbered = [path.name for path in folders if not re.fullmatch(r"\d\d-[a-z0-9-]+", path.name)]
    assert unnumbered == ["clusters"]
    listed = (ROOT / "examples/README.md").read_text()
    assert [path.name for path in folders if path.name not in listed] == []


def broken_links(page: Path, text: str) -> Iterator[str]:
    """Links to files or headings that are not there; links to other sites are not followed."""
    for target in LINK.findall(text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        if name and not file.exists():
            yield f"{page}: {target}"
        elif anchor and anchor not in _anchors(text if not name else file.read_text()):
            yield f"{page}: {target}: no such heading"


def _pages() -> list[Path]:
    folders = [ROOT / name for name in ("docs", "examples", "benchmarks")]
    return sorted([*ROOT.glob("*.md"), *(page for folder in folders for page in folder.rglob("*.md"))])


def _anchors(text: str) -> set[str]:
    """The anchors that a page's headings get."""
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in HEADING.findall(text))
    return {heading.strip().replace(" ", "-") for heading in plain}
