"""Checks the repositories in a spec before it is stored, in any dialect. Called by `submissions`.

Readers refuse most errors with their line; the remaining ones must not be stored, shown or passed to git.
"""

from collections.abc import Iterator

from tarmac.model.errors import InvalidInput, Problem
from tarmac.model.spec import Checkout, Repository, RunSpec
from tarmac.node.files import gitrules
from tarmac.node.files.gitrules import TRANSPORTS, GitRules, Refused

_ANY = GitRules(transports=TRANSPORTS)
"""The settings restrict transports when the repository is fetched."""


def check_repositories(spec: RunSpec, *, filename: str) -> None:
    """Raises InvalidInput for ambiguous URLs, branches and commits, and for those with a secret."""
    problems = [
        Problem(message=f"{where}: {problem}", file=filename)
        for where, repository in _named(spec)
        for problem in _problems(repository)
    ]
    if problems:
        raise InvalidInput(problems)


def _named(spec: RunSpec) -> Iterator[tuple[str, Repository]]:
    if isinstance(spec.code, Repository):
        yield "code", spec.code
    for number, step in enumerate(spec.setup):
        if isinstance(step, Checkout):
            yield f"setup step {number + 1}", step.repository


def _problems(repository: Repository) -> Iterator[str]:
    checks = (
        (lambda url: gitrules.check_url(url, _ANY), repository.url),
        (gitrules.check_reference, repository.branch),
        (gitrules.check_commit, repository.commit),
    )
    for check, value in checks:
        try:
            if value is not None:
                check(value)
        except Refused as refused:
            yield str(refused)
