"""The field `code`: a directory or archive with the files it leaves out, or a git repository."""

import re
from typing import Any

from tarmac.dialects import quantities, schema
from tarmac.dialects.kinds import flag, matching, text
from tarmac.dialects.located import Scalar, Table
from tarmac.dialects.native.environment import PATH
from tarmac.dialects.section import Fields, Value
from tarmac.model.spec import LocalDirectory, Repository
from tarmac.node.files import gitrules

REFERENCE = matching(
    r"[A-Za-z0-9_][A-Za-z0-9._/+@-]{0,254}", "the name of a branch or tag, without blanks and no '-' first,"
)
COMMIT = matching(r"[0-9a-fA-F]{4,64}", "a commit of 4 to 64 hexadecimal digits")


Code = LocalDirectory | Repository


def _read(value: Value) -> Any:
    """The code; MISSING if it is invalid, with a problem reported."""
    if isinstance(value.node, Table):
        words = schema.fields_of(REPOSITORY).synonyms
        from_git = any(key.text == "git" or words.get(key.text) == "git" for key, _ in value.node.entries)
        return schema.read_value(value, REPOSITORY if from_git else DIRECTORY)
    if isinstance(value.node, Scalar) and _REMOTE.match(value.node.text):
        url = read_url(value)
        return Repository(url=url) if url is not None else schema.MISSING
    path = value.read(PATH, None)
    return LocalDirectory(path=path) if path is not None else schema.MISSING


def _write(code: Code) -> Any:
    if isinstance(code, Repository):
        return schema.write_record(code, REPOSITORY)
    found = schema.write_record(code, DIRECTORY)
    return found if len(found) > 1 else code.path


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


_FILE_NAME = matching(r"[A-Za-z0-9._-]{1,255}", "the name of a file")
_REMOTE = re.compile(r"[A-Za-z0-9+.-]+://|ext::|[A-Za-z0-9._-]+@[A-Za-z0-9._-]+:", re.ASCII)
_SERVER = r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?"
_PATH = r"[A-Za-z0-9._~/%+-]+"
_URL = re.compile(
    rf"(https?|ssh|file)://([A-Za-z0-9._-]+@)?({_SERVER}(:[0-9]{{1,5}})?)?/{_PATH}"
    rf"|([A-Za-z0-9_][A-Za-z0-9._-]*@{_SERVER}:(?!//)|{_SERVER}:(?!/)){_PATH}",
    re.ASCII,
)

DIRECTORY = schema.record(
    {
        "path": schema.Field(
            PATH,
            words="directory dir",
            required="a directory such as '.', or 'git' with the URL of a repository",
        ),
        "ignore_file": _FILE_NAME,
        "exclude": schema.Field(
            schema.tuple_of(text("a pattern"), "a list of patterns"), words="ignore excludes"
        ),
        "whole": flag(),
        "limit": schema.Field(quantities.SIZE, sets="limit_bytes"),
    },
    make=LocalDirectory,
)
GIT_URL = schema.Custom(lambda value: read_url(value) or schema.MISSING)
REVISION = {
    "branch": schema.Field(REFERENCE, words="tag"),
    "commit": schema.Field(COMMIT, words="rev sha"),
    "submodules": schema.Field(flag(), words="recursive"),
}
"""The fields of a repository besides its URL."""

REPOSITORY = schema.record(
    {
        "git": schema.Field(
            GIT_URL, sets="url", words="repo url repository", required="the URL of the repository"
        ),
        **REVISION,
    },
    make=Repository,
)
CODE = schema.Custom(
    _read, _write, Fields(known=schema.fields_of(DIRECTORY).known | schema.fields_of(REPOSITORY).known)
)
