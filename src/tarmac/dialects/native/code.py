"""Reads `code`: a directory or archive with the files it leaves out, or a git repository.

Called by the reader.
"""

from __future__ import annotations

import re

from tarmac.dialects import quantities
from tarmac.dialects.kinds import flag, matching, text
from tarmac.dialects.located import Scalar, Table
from tarmac.dialects.native.environment import path_from
from tarmac.dialects.section import Fields, Section, Value, words_for
from tarmac.model.spec import LocalDirectory, Repository
from tarmac.node.files import gitrules

DIRECTORY = Fields(
    known=frozenset({"path", "ignore_file", "exclude", "whole", "limit"}),
    synonyms=words_for(path="directory dir", exclude="ignore excludes"),
)
REPOSITORY = Fields(
    known=frozenset({"git", "branch", "commit", "submodules"}),
    synonyms=words_for(git="repo url repository", commit="rev sha", branch="tag"),
)

REFERENCE = matching(
    r"[A-Za-z0-9_][A-Za-z0-9._/+@-]{0,254}", "the name of a branch or tag, without blanks and no '-' first,"
)
COMMIT = matching(r"[0-9a-fA-F]{4,64}", "a commit of 4 to 64 hexadecimal digits")


def read_code(run: Section, directory: str) -> LocalDirectory | Repository | None:
    """The code of a run; None if there is none, or if it is invalid, with a problem reported."""
    value = run.get("code")
    if value is None:
        return None
    if isinstance(value.node, Table):
        return _described(value, directory)
    if isinstance(value.node, Scalar) and _REMOTE.match(value.node.text):
        url = read_url(value)
        return Repository(url=url) if url is not None else None
    path = value.read(path_from(directory), None)
    return LocalDirectory(path=path) if path is not None else None


def read_repository(section: Section) -> Repository | None:
    """The repository that the fields `git`, `branch`, `commit` and `submodules` name."""
    value = section.get("git")
    if value is None:
        section.missing("git", "the URL of the repository")
        return None
    url = read_url(value)
    branch = section.read("branch", REFERENCE, None)
    commit = section.read("commit", COMMIT, None)
    submodules = section.read("submodules", flag(), False)
    if url is None:
        return None
    return Repository(url=url, branch=branch, commit=commit, submodules=submodules)


def read_url(value: Value) -> str | None:
    """The URL of a repository, over HTTPS or SSH; refuses a password or token in it without showing it."""
    if not isinstance(value.node, Scalar) or value.node.empty:
        value.expected(URL)
        return None
    url = value.node.text
    if gitrules.holds_secret(url):
        value.refuse(
            "the URL contains a password or token, which everyone who sees the run would read",
            "take it out; the server is given a deploy key or credentials in its settings",
        )
        return None
    if not _URL.fullmatch(url):
        value.expected(URL)
        return None
    return value.read(text(URL), None)


URL = "the URL of a git repository, as https://host/org/repo.git or git@host:org/repo.git,"


def _described(value: Value, directory: str) -> LocalDirectory | Repository | None:
    keys = {key.text for key, _ in value.node.entries} if isinstance(value.node, Table) else set()
    if keys & ({"git"} | {word for word, name in REPOSITORY.synonyms.items() if name == "git"}):
        section = value.section(REPOSITORY)
        return read_repository(section) if section is not None else None
    section = value.section(DIRECTORY)
    if section is None:
        return None
    if "path" not in section:
        section.missing("path", "a directory such as '.', or 'git' with the URL of a repository")
    path = section.read("path", path_from(directory), None)
    code = LocalDirectory(
        path=path or directory,
        ignore_file=section.read("ignore_file", _FILE_NAME, None),
        exclude=section.read_list("exclude", text("a pattern"), "a list of patterns"),
        whole=section.read("whole", flag(), False),
        limit_bytes=section.read("limit", quantities.size_bytes(), None),
    )
    return code if path is not None else None


_FILE_NAME = matching(r"[A-Za-z0-9._-]{1,255}", "the name of a file")
_REMOTE = re.compile(r"[A-Za-z0-9+.-]+://|ext::|[A-Za-z0-9._-]+@[A-Za-z0-9._-]+:", re.ASCII)
_SERVER = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?"
_PATH = r"[A-Za-z0-9._~/%+-]+"
_URL = re.compile(
    rf"(https?|ssh|file)://([A-Za-z0-9._-]+@)?({_SERVER}(:[0-9]{{1,5}})?)?/{_PATH}"
    rf"|([A-Za-z0-9_][A-Za-z0-9._-]*@{_SERVER}:(?!//)|{_SERVER}:(?!/)){_PATH}",
    re.ASCII,
)
