"""Subjects of commits are imperative sentences of at most 72 characters. Run by `make check`.

Read are the commits since the branch left `origin/main`; none where there is no such branch.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator

import pytest

from source_tree import ROOT

MOST_CHARACTERS = 72
_NOT_IMPERATIVE = re.compile(r"\w+(?:ed|ing|(?<!s)s)\b|(?:The|A|An|What|Who|Where|It|There|No)\b")
_VERBS = ("Embed", "Feed", "Need", "Seed", "Shed", "Speed", "Bring", "Focus", "Alias", "Bias")
"""Verbs that look like another form of a verb."""


def complaints(subject: str) -> Iterator[str]:
    """Why a subject is not as it should be."""
    if len(subject) > MOST_CHARACTERS:
        yield f"{len(subject)} characters, more than {MOST_CHARACTERS}: {subject}"
    first = subject.partition(" ")[0]
    if first not in _VERBS and (not first[:1].isupper() or _NOT_IMPERATIVE.match(subject)):
        yield f"begins with {first!r}, not with the base form of a verb: {subject}"
    if subject.endswith("."):
        yield f"ends with a full stop: {subject}"


def test_subjects_are_short_and_imperative() -> None:
    log = subprocess.run(
        ["git", "log", "--no-merges", "--format=%s", "origin/main..HEAD"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if log.returncode != 0:
        pytest.skip("there is no origin/main to compare with")
    assert [each for subject in log.stdout.splitlines() for each in complaints(subject)] == []


def test_the_rule_bites() -> None:
    assert not list(complaints("Store the usage of removed runs"))
    assert not list(complaints("Pass secrets to the steps of a run"))
    for bad in (
        "Stores usage",
        "Stored usage",
        "Storing usage",
        "What is stored",
        "store usage",
        "Store it.",
    ):
        assert list(complaints(bad)), bad
    assert list(complaints("Store " + "x" * 72))
