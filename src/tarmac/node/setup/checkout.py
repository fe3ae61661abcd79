"""A repository in the working directory of a node. Called by `hooks.setup`.

git and its credentials are the node's, even if the run has a container. The clone is complete, so that `git
describe` and versions from tags work; `gitrules` makes the calls of git safe.
"""

from __future__ import annotations

import os
from typing import Optional

from tarmac.node.attempt.steps import CheckoutStep, clone_words
from tarmac.node.files import gitrules, tail
from tarmac.node.files.gitrules import Refused
from tarmac.node.setup.setupwork import SetupWork, StepFailed


def clone(work: SetupWork, step: CheckoutStep) -> str:
    """Clone and check out; returns the full commit. Raises StepFailed."""
    work.say(f"+ {clone_words(step)}")
    rules = work.run.git
    try:
        url = gitrules.check_url(step.url, rules)
        branch = gitrules.check_reference(step.branch) if step.branch else None
        commit = gitrules.check_commit(step.commit) if step.commit else None
    except Refused as problem:
        raise StepFailed(str(problem)) from None
    place = inside(work.directory, step.path)
    if os.path.lexists(place) and not _empty_directory(place):
        raise StepFailed(f"{step.path} is there already, and not empty")
    try:
        _clone(work, url, branch if commit is None else None, place)
        _check_out(work, place, commit)
        if step.submodules:
            _git(work, "submodule", "--quiet", "update", "--init", "--recursive", directory=place)
        head = work.ask(gitrules.argv("rev-parse", "HEAD"), env=_env(work), directory=place, outside=True)
    except StepFailed as failed:
        failed.hint = gitrules.hint_for(tail.last_lines(work.log))
        if failed.exit_code == 127:
            raise StepFailed("git is not installed on this node", exit_code=127) from None
        raise
    resolved = (head or "").strip()
    work.say(f"(at commit {resolved})")
    return resolved


def inside(directory: str, path: str) -> str:
    """The absolute path below a directory; raises StepFailed if it would be outside."""
    place = os.path.join(directory, path)
    root = os.path.realpath(directory)
    real = os.path.realpath(place)
    if os.path.isabs(path) or real == root or os.path.commonpath([root, real]) != root:
        raise StepFailed(f"{path!r} is not below the working directory")
    return place


def _clone(work: SetupWork, url: str, branch: Optional[str], place: str) -> None:
    options = [f"--branch={branch}"] if branch is not None else []
    _git(work, "clone", "--quiet", "--no-hardlinks", "--template=", *options, "--", url, place)


def _check_out(work: SetupWork, place: str, commit: Optional[str]) -> None:
    if commit is None:
        return
    answer = work.ask(
        gitrules.argv("rev-parse", "--quiet", "--verify", f"{commit}^{{commit}}"),
        env=_env(work),
        directory=place,
        outside=True,
    )
    if answer is None and gitrules.is_whole(commit):
        # A commit may be on no branch and no tag: servers send it on request by its name.
        _git(work, "fetch", "--quiet", "--no-tags", "origin", commit, directory=place)
    elif answer is None:
        raise StepFailed(f"{commit} is no commit there, or the beginning of several")
    _git(work, "checkout", "--quiet", "--detach", commit, directory=place)


def _git(work: SetupWork, *arguments: str, directory: Optional[str] = None) -> None:
    work.do(gitrules.argv(*arguments), env=_env(work), directory=directory, outside=True)


def _env(work: SetupWork) -> dict[str, str]:
    around = work.env_outside()
    env = gitrules.environment(work.run.git, around)
    env.update({name: value for name, value in around.items() if name.startswith("TARMAC_")})
    return env


def _empty_directory(path: str) -> bool:
    return os.path.isdir(path) and not os.path.islink(path) and not os.listdir(path)
