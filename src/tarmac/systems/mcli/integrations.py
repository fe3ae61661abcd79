"""Reads `integrations`, in order: repositories and packages become setup steps, trackers variables (M8).

Called by the reader.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from tarmac.dialects.kinds import Kind, did_you_mean, flag, lenient
from tarmac.dialects.located import Items, Node, Scalar, Table, quote
from tarmac.dialects.native.code import REFERENCE, read_url
from tarmac.dialects.native.environment import EXPANSION
from tarmac.dialects.plain import to_plain
from tarmac.dialects.schema import MISSING, Custom, Field, read_section, record
from tarmac.dialects.section import Value
from tarmac.model.spec import Checkout, PythonPackages, Repository, SetupStep, SystemPackages
from tarmac.systems.mcli.environment import DATABRICKS
from tarmac.systems.mcli.fields import WORD, WORKSPACE, Vocabulary, read_words, snake

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
    if named := sorted({word.strip("{}") for word in _named(value.node)} & env.keys()):
        value.warn(
            f"{', '.join(f'${name}' for name in named)} is what env_variables says: "
            "--env does not reach the integrations"
        )
    return found


def _read(item: Value, found: Integrations, env: Mapping[str, str]) -> None:
    kind, value = _typed(item)
    if kind is None:
        return
    if kind not in _KINDS:
        reason = _REFUSED.get(kind, f"there is no integration {kind!r}")
        hint = did_you_mean(kind, _KINDS) if kind not in _REFUSED else None
        item.refuse(reason, hint or f"known: {', '.join(_KINDS)}")
        return
    section = _KINDS[kind].section(value, f"the parameters of {kind}")
    if section is None:
        return
    given = {name: section[name] for name in sorted(_KINDS[kind].shape.fields) if name in section}
    plain = {name: _clean(to_plain(each.node)) for name, each in given.items()}
    for name, each in given.items():
        named = _named(each.node) if name != "tags" else set[str]()
        unknown = sorted(word for word in named if word.strip("{}") not in env)
        for word in unknown:
            hint = f"set {word.strip('{}')} in env_variables, or write it out"
            each.refuse(f"'${word}' is not known here", hint)
        if unknown:
            del section[name]
        elif named:
            section[name] = replace(each, node=_expanded(each.node, env))
    made = read_section(section, _KINDS[kind].shape)
    if kind == "git_repo" and made is not MISSING:
        made = _checkout(section["git_repo"], found.setup, **made)
    if isinstance(made, dict):
        found.variables |= made
    elif made is not MISSING:
        found.setup.append(made)
    found.records.append({"integration_type": kind, **plain})


def _expanded(node: Node, env: Mapping[str, str]) -> Node:
    """The node with `$NAME` in its texts replaced by values of env_variables, as the platform's shell did."""
    if isinstance(node, Items):
        return replace(node, items=tuple(_expanded(item, env) for item in node.items))
    if isinstance(node, Scalar):
        return replace(node, text=EXPANSION.sub(lambda found: env[found[1].strip("{}")], node.text))
    return node


def _clean(value: Any) -> Any:
    """The value without user names and tokens in addresses."""
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return _CREDENTIALS.sub("", value) if isinstance(value, str) else value


def _named(node: Node) -> set[str]:
    """The variables named by the texts below a node, as written: `A` or `{A}`."""
    if isinstance(node, Scalar):
        return set(EXPANSION.findall(node.text))
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
        word = snake(key.text)
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
            item.refuse("'integration_type' is missing", f"known: {', '.join(_KINDS)}")
        return None, item
    kind = Value(named, f"{item.path}.integration_type", item.problems).read(WORD, None)
    table = Table(entries=tuple(entries), line=item.node.line, column=item.node.column)
    return kind, Value(table, item.path, item.problems)


def _checkout(
    value: Value,
    setup: Sequence[SetupStep],
    *,
    git_repo: str = "",
    host: str = _USUAL_SITE,
    ssh_clone: bool = True,
    git_branch: str | None = None,
    git_commit: str | None = None,
    git_clone_recursive: bool = False,
    path: str | None = None,
    pip_install: str | None = None,
) -> Any:
    """The step of a repository; MISSING if its address is invalid, with a problem reported."""
    url = _url(value, git_repo, site=host, by_ssh=ssh_clone)
    branch, commit = git_branch, git_commit
    if commit and not _COMMIT.fullmatch(commit):
        branch, commit = commit, None  # in MCLI it may name a branch or tag as well
    elif branch and not commit and _WHOLE_COMMIT.fullmatch(branch):
        branch, commit = None, branch  # and the branch may be a commit
    if branch and commit:
        value.warn(f"git_commit {commit} wins over git_branch {branch}")
        branch = None
    if url is None:
        return MISSING
    path = path or re.split(r"[/:]", url.rstrip("/"))[-1].removesuffix(".git")
    if any(isinstance(step, Checkout) and step.path == path for step in setup):
        value.refuse(f"another repository goes to {path!r} already", "give one of them another 'path'")
    repository = Repository(url=url, branch=branch, commit=commit, submodules=git_clone_recursive)
    return Checkout(repository=repository, path=path, install=pip_install)


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


def _revision(scalar: Scalar) -> str:
    return REFERENCE.read(Scalar(text=WORD.read(scalar)))


def _path(value: Value) -> Any:
    """The repository's path in the working directory, which /workspace stands for."""
    word = value.read(WORD, None)
    if word is None:
        return MISSING
    inside = re.sub(r"^(/workspace(?=/|$)|~|\$HOME|/root(?=/|$))", "", word).strip("/")
    parts = [part for part in inside.split("/") if part not in ("", ".")]
    if ".." in parts or not parts:
        value.refuse(
            "the repository must go into the working directory of the run", "such as 'path: composer'"
        )
        return MISSING
    path = "/".join(parts)
    if not word.startswith(f"{WORKSPACE}/") and path != word.removeprefix("./").rstrip("/"):
        value.warn(
            f"{word} is {path} in the run's working directory: a command that names {word} "
            f"must name {path} instead"
        )
    return path


def _install(value: Value) -> str | None:
    word = value.read(WORD, "")
    rest = " ".join(part for part in word.split(" ") if part != "--user")
    if rest != word:
        value.warn("--user is left out: packages go into an environment of the run's own")
    return rest.removeprefix("pip install ").strip() or None


def _packages(value: Value) -> Any:
    packages = read_words(value, "a list of packages")
    if any(package.startswith("-") and " " not in package for package in packages):
        value.refuse("a package begins with '-': options are none of its own", "name packages only")
    return packages or MISSING


def _variables(renamed: Mapping[str, str], make: Callable[..., Any] = dict, **names: str) -> Vocabulary:
    """A mapping whose parameters each set a variable."""
    rows = {name: Field(WORD, sets=variable) for name, variable in names.items()}
    return Vocabulary(shape=record(rows, make=make), renamed=renamed)


_REVISION = Kind(REFERENCE.description, _revision)
_PACKAGES = Field(
    Custom(_packages), words="requirements", required="a list of packages, such as 'packages: [numpy]'"
)
_REPOSITORY = "the name of a repository, such as 'git_repo: mosaicml/composer'"
_WANDB = _variables(
    {}, project="WANDB_PROJECT", entity="WANDB_ENTITY", group="WANDB_RUN_GROUP", job_type="WANDB_JOB_TYPE"
)
_TAGS = Custom(lambda value: ",".join(read_words(value, "a list of tags")) or MISSING)
_KINDS: Mapping[str, Vocabulary] = {
    "git_repo": Vocabulary(
        shape=record(
            {
                "git_repo": Field(WORD, words="repo", required=_REPOSITORY),
                "host": WORD,
                "ssh_clone": flag(lenient),
                "git_branch": Field(_REVISION, words="branch"),
                "git_commit": Field(_REVISION, words="commit"),
                "path": Custom(_path),
                "git_clone_recursive": Field(flag(lenient), words="recursive"),
                "pip_install": Custom(_install),
            },
            make=dict,
        )
    ),
    "pip_packages": Vocabulary(
        shape=record(
            {"packages": replace(_PACKAGES, sets="requirements"), "upgrade": flag(lenient)},
            make=PythonPackages,
        )
    ),
    "apt_packages": Vocabulary(shape=record({"packages": replace(_PACKAGES, words="")}, make=SystemPackages)),
    "wandb": Vocabulary(
        shape=record({**_WANDB.shape.fields, "tags": Field(_TAGS, sets="WANDB_TAGS")}, make=dict)
    ),
    "mlflow": _variables(
        {"experiment_path": "experiment_name"},
        partial(dict, MLFLOW_TRACKING_URI=DATABRICKS),
        experiment_name="MLFLOW_EXPERIMENT_NAME",
        tracking_uri="MLFLOW_TRACKING_URI",
    ),
    "comet_ml": _variables(
        {"project": "project_name"}, project_name="COMET_PROJECT_NAME", workspace="COMET_WORKSPACE"
    ),
}
_REFUSED = {
    "local": "the integration 'local' built a container image of your directories, which tarmac does not; "
    "use git_repo, or a native run file with 'code: .'"
}
