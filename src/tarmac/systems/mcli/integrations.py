"""Reads `integrations`, in order: repositories and packages become setup steps, trackers variables (M8).

Called by the reader.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tarmac.dialects.kinds import did_you_mean, flag, lenient
from tarmac.dialects.located import Items, Node, Scalar, Table, quote
from tarmac.dialects.native.code import REFERENCE, read_url
from tarmac.dialects.plain import to_plain
from tarmac.dialects.section import Section, Value
from tarmac.model.spec import Checkout, PythonPackages, Repository, SetupStep, SystemPackages
from tarmac.systems.mcli import fields
from tarmac.systems.mcli.environment import DATABRICKS, EXPANSION, expand_variables
from tarmac.systems.mcli.fields import WORKSPACE, Vocabulary, known_as, read_known, read_word, read_words

_USUAL_SITE = "github.com"

_COMMIT = re.compile(r"[0-9a-fA-F]{4,64}", re.ASCII)
_WHOLE_COMMIT = re.compile(r"[0-9a-fA-F]{40}([0-9a-fA-F]{24})?", re.ASCII)
_ACCOUNT = re.compile(r"(?<![^\s/@])[^\s/@]*+@")
_CREDENTIALS = re.compile(r"(?<=//)[^/@\s]+@")


@dataclass(slots=True, kw_only=True)
class Integrations:
    """All results. `records` holds them without credentials, for /mnt/config/run_config.yaml."""

    setup: list[SetupStep] = field(default_factory=list)
    variables: dict[str, str] = field(default_factory=dict)
    records: list[dict[str, Any]] = field(default_factory=list)
    wandb: bool = False


def read_integrations(value: Value | None, env: Mapping[str, str]) -> Integrations:
    """All integrations of a run, in order."""
    found = Integrations()
    if value is None:
        return found
    if not isinstance(value.node, Items):
        value.expected("a list of integrations, each with its integration_type,")
        return found
    for item in value.items("a list of integrations"):
        _read(item, found, env)
    if named := sorted(_named(value.node) & env.keys()):
        value.warn(
            f"{', '.join(f'${name}' for name in named)} is what env_variables says: "
            "--env does not reach the integrations"
        )
    return found


def _read(item: Value, found: Integrations, env: Mapping[str, str]) -> None:
    kind, value = _typed(item)
    if kind is None:
        return
    if kind not in _READERS:
        reason = _REFUSED.get(kind, f"there is no integration {kind!r}")
        hint = did_you_mean(kind, _READERS) if kind not in _REFUSED else None
        item.refuse(reason, hint or f"known: {', '.join(_READERS)}")
        return
    vocabulary, reader = _READERS[kind]
    section = read_known(value, vocabulary, description=f"the parameters of {kind}")
    if section is None:
        return
    reader(section, found, env)
    plain = {
        name: to_plain(field_value.node)
        for name in sorted(vocabulary.known)
        if (field_value := section.get(name))
    }
    found.records.append({"integration_type": kind, **{name: _clean(item) for name, item in plain.items()}})


def _clean(value: Any) -> Any:
    """The value without user names and tokens in addresses."""
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return _CREDENTIALS.sub("", value) if isinstance(value, str) else value


def _named(node: Node) -> set[str]:
    """The variables named by the texts below a node."""
    if isinstance(node, Scalar):
        return {name.strip("{}") for name in EXPANSION.findall(node.text)}
    parts = node.items if isinstance(node, Items) else [item for _, item in node.entries]
    return {name for part in parts for name in _named(part)}


def _typed(item: Value) -> tuple[str | None, Value]:
    """The type of an integration, and the mapping of its parameters (also in the form `{type, params}`)."""
    if not isinstance(item.node, Table):
        item.expected("a mapping with integration_type and its parameters")
        return None, item
    entries: list[tuple[Scalar, Node]] = []
    named: Node | None = None
    for key, node in item.node.entries:
        word = known_as(key.text, Vocabulary(known=frozenset()))
        if word in ("integration_type", "type"):
            named = node
        elif word == "params" and isinstance(node, Table):
            entries += node.entries
        else:
            entries.append((key, node))
    if named is None:
        near = next((key for key, _ in entries if did_you_mean(key.text, ("integration_type",))), None)
        if near is not None:
            Value(near, item.path, item.problems).refuse(
                f"unknown field {quote(near)}", "did you mean 'integration_type'?"
            )
        else:
            item.refuse("'integration_type' is missing", f"known: {', '.join(_READERS)}")
        return None, item
    kind = read_word(Value(named, f"{item.path}.integration_type", item.problems))
    table = Table(entries=tuple(entries), line=item.node.line, column=item.node.column)
    return kind, Value(table, item.path, item.problems)


def _git_repo(section: Section, found: Integrations, env: Mapping[str, str]) -> None:
    value = section.get("git_repo")
    if value is None:
        section.missing("git_repo", "the name of a repository, such as 'git_repo: mosaicml/composer'")
        return
    repository = _word(section, "git_repo", env)
    site = _word(section, "host", env) or _USUAL_SITE
    by_ssh = section.read("ssh_clone", flag(lenient), True)
    url = _url(value, repository or "", site=site, by_ssh=by_ssh)
    branch, commit = _revision(section, "git_branch", env), _revision(section, "git_commit", env)
    if commit and not _COMMIT.fullmatch(commit):
        branch, commit = commit, None  # in MCLI it may name a branch or tag as well
    elif branch and not commit and _WHOLE_COMMIT.fullmatch(branch):
        branch, commit = None, branch  # and the branch may be a commit
    if branch and commit:
        value.warn(f"git_commit {commit} wins over git_branch {branch}")
    path = _path(section, env)
    if url is None:
        return
    path = path or re.split(r"[/:]", url.rstrip("/"))[-1].removesuffix(".git")
    if any(isinstance(step, Checkout) and step.path == path for step in found.setup):
        value.refuse(f"another repository goes to {path!r} already", "give one of them another 'path'")
    found.setup.append(
        Checkout(
            repository=Repository(
                url=url,
                branch=None if commit else branch,
                commit=commit,
                submodules=section.read("git_clone_recursive", flag(lenient), False),
            ),
            path=path,
            install=_install(section, env),
        )
    )


def _url(value: Value, repository: str, *, site: str, by_ssh: bool) -> str | None:
    """The address of a repository: `org/name` on a site, or a complete address unchanged."""
    if re.match(r"[A-Za-z0-9+.-]+:(//|:)|[\w.-]+@[\w.-]+:", repository, re.ASCII):
        return _checked(value, repository)
    name = repository.removesuffix(".git").strip("/")
    if not re.fullmatch(r"[\w.~][\w.~-]*(/[\w.~][\w.~-]*)+", name, re.ASCII) or ".." in name:
        value.refuse(
            f"{_ACCOUNT.sub('***@', repository)!r} is no repository of the form organization/name",
            "such as mosaicml/composer; a site other than github.com goes into 'host'",
        )
        return None
    return _checked(value, f"git@{site}:{name}.git" if by_ssh else f"https://{site}/{name}.git")


def _checked(value: Value, url: str) -> str | None:
    """The address, if git may be called with it."""
    at = Scalar(text=url, quoted=True, line=value.node.line, column=value.node.column)
    return read_url(Value(at, value.path, value.problems))


def _revision(section: Section, name: str, env: Mapping[str, str]) -> str | None:
    word = _word(section, name, env)
    value = section.get(name)
    if not word or value is None:
        return None
    return Value(
        Scalar(text=word, line=value.node.line, column=value.node.column), value.path, value.problems
    ).read(REFERENCE, None)


def _path(section: Section, env: Mapping[str, str]) -> str | None:
    """The repository's path in the working directory, which /workspace stands for."""
    word = _word(section, "path", env)
    value = section.get("path")
    if word is None or value is None:
        return None
    inside = re.sub(r"^(/workspace(?=/|$)|~|\$HOME|/root(?=/|$))", "", word).strip("/")
    parts = [part for part in inside.split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        value.refuse(
            "the repository must go into the working directory of the run", "such as 'path: composer'"
        )
        return None
    path = "/".join(parts)
    if not word.startswith(f"{WORKSPACE}/") and path != word.removeprefix("./").rstrip("/"):
        value.warn(
            f"{word} is {path} in the run's working directory: a command that names {word} "
            f"must name {path} instead"
        )
    return path


def _install(section: Section, env: Mapping[str, str]) -> str | None:
    value = section.get("pip_install")
    word = _word(section, "pip_install", env)
    if value is None or word is None:
        return None
    rest = " ".join(part for part in word.split(" ") if part != "--user")
    if rest != word:
        value.warn("--user is left out: packages go into an environment of the run's own")
    return rest.removeprefix("pip install ").strip() or None


def _pip(section: Section, found: Integrations, env: Mapping[str, str]) -> None:
    packages = _packages(section, env)
    if packages:
        upgrade = section.read("upgrade", flag(lenient), False)
        found.setup.append(PythonPackages(requirements=packages, upgrade=upgrade))


def _apt(section: Section, found: Integrations, env: Mapping[str, str]) -> None:
    if packages := _packages(section, env):
        found.setup.append(SystemPackages(packages=packages))


def _packages(section: Section, env: Mapping[str, str]) -> tuple[str, ...]:
    value = section.get("packages")
    if value is None:
        section.missing("packages", "a list of packages, such as 'packages: [numpy]'")
        return ()
    packages = read_words(value, "a list of packages")
    if any(package.startswith("-") and " " not in package for package in packages):
        value.refuse("a package begins with '-': options are none of its own", "name packages only")
    return tuple(expand_variables(value, package, env) for package in packages)


def _wandb(section: Section, found: Integrations, env: Mapping[str, str]) -> None:
    found.wandb = True
    tags = section.get("tags")
    _set(found, section, env, WANDB_PROJECT="project", WANDB_ENTITY="entity", WANDB_RUN_GROUP="group")
    _set(found, section, env, WANDB_JOB_TYPE="job_type")
    if tags is not None and (words := read_words(tags, "a list of tags")):
        found.variables["WANDB_TAGS"] = ",".join(words)


def _mlflow(section: Section, found: Integrations, env: Mapping[str, str]) -> None:
    found.variables.setdefault("MLFLOW_TRACKING_URI", DATABRICKS)
    _set(found, section, env, MLFLOW_EXPERIMENT_NAME="experiment_name", MLFLOW_TRACKING_URI="tracking_uri")


def _comet(section: Section, found: Integrations, env: Mapping[str, str]) -> None:
    _set(found, section, env, COMET_PROJECT_NAME="project_name", COMET_WORKSPACE="workspace")


def _set(found: Integrations, section: Section, env: Mapping[str, str], **names: str) -> None:
    """Set the variables to the given parameters."""
    for variable, name in names.items():
        if (word := _word(section, name, env)) is not None:
            found.variables[variable] = word


def _word(section: Section, name: str, env: Mapping[str, str]) -> str | None:
    value = section.get(name)
    word = read_word(value)
    return None if value is None or word is None else expand_variables(value, word, env)


_Reader = Callable[[Section, Integrations, Mapping[str, str]], None]
_READERS: Mapping[str, tuple[Vocabulary, _Reader]] = {
    "git_repo": (fields.GIT_REPO, _git_repo),
    "pip_packages": (fields.PIP_PACKAGES, _pip),
    "apt_packages": (fields.APT_PACKAGES, _apt),
    "wandb": (fields.WANDB, _wandb),
    "mlflow": (fields.MLFLOW, _mlflow),
    "comet_ml": (fields.COMET, _comet),
}
_REFUSED = {
    "local": "the integration 'local' built a container image of your directories, which tarmac does not; "
    "use git_repo, or a native run file with 'code: .'",
}
