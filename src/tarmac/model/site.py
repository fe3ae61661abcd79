"""Requests to a batch system beyond the common fields of a run, and the directives that users may set.

Written by a reader of `systems` (and the field `site` of a run file), rendered by `launch` as a batch script
or a job description. The other settings are the run's own: the entry point is the command of its one role;
its time limit, variables, modules and hooks apply.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tarmac.model.codec import StoredRecord
from tarmac.model.errors import InvalidInput, listed

RESERVED = frozenset(
    {
        "job-name",
        "comment",
        "output",
        "error",
        "open-mode",
        "requeue",
        "no-requeue",
        "nodes",
        "array",
        "export",
    }
    | {"ntasks", "ntasks-per-node", "parsable", "wrap", "chdir", "het-group", "input", "test-only", "wait"}
)
"""Directives that the engine itself sets, to find an attempt again and to start it once."""

OF_THE_POOL = "partition"
"""The directive that a run sets by naming a pool."""

_NAME = re.compile(r"[a-z][a-z0-9-]{0,60}")
_VALUE = re.compile(r"[A-Za-z0-9_.,:;@%+=*/&|()\[\]-][A-Za-z0-9_.,:;@%+=*/&|()\[\] -]{0,500}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteAddress:
    """A site as the cluster that it is: the kind of its engine, and the settings with which it is added.

    `named_by` are those of its settings that distinguish it from other sites.
    """

    engine: str
    name: str
    settings: Mapping[str, str]
    named_by: tuple[str, ...] = ("url",)

    def command(self, queue: str = "QUEUE") -> str:
        """The command that adds it as a cluster, in which the user completes the rest."""
        options = (f" --{name.replace('_', '-')} {shlex.quote(text)}" for name, text in self.settings.items())
        more = f" --set partition={shlex.quote(queue)} --set directory=DIRECTORY"
        return f"tarmac clusters add {self.name} --engine {self.engine}" + "".join(options) + more

    def is_of(self, engine: str, settings: Mapping[str, Any]) -> bool:
        """Whether a cluster with this engine and these settings is the site."""
        return engine == self.engine and all(
            _comparable(str(settings.get(name))) == _comparable(self.settings[name]) for name in self.named_by
        )


def unicore_address(url: str) -> SiteAddress:
    """The address of a site behind UNICORE."""
    words = [word for word in url.partition("://")[2].split("/") if word not in ("", "rest", "core")]
    return SiteAddress(engine="unicore", name=_cluster_name(words[-1:]), settings={"url": url})


def _comparable(url: str) -> str:
    """The form in which URLs of one place are equal: the host in lower case, without the usual ending."""
    url = re.sub(r"^[^/]+//[^/]*", lambda found: found[0].lower(), url)
    return url.rstrip("/").removesuffix("/rest/core")


def _cluster_name(words: Sequence[str]) -> str:
    return re.sub(r"[^a-z0-9]+", "-", " ".join(words).lower()).strip("-")[:63] or "site"


class Firecrest(StoredRecord, frozen=True, kw_only=True):
    """A site behind firecREST, and its machine to use."""

    api_url: str
    token_url: str
    machine: str

    @property
    def address(self) -> SiteAddress:
        """The site as a cluster."""
        settings = {"url": self.api_url, "token_url": self.token_url, "system": self.machine}
        return SiteAddress(
            engine="firecrest",
            name=_cluster_name([self.machine]),
            settings=settings,
            named_by=("url", "system"),
        )


class Apptainer(StoredRecord, frozen=True, kw_only=True):
    """A container image run by `srun apptainer run`: `path` is below the project, or with `remote` a site's.

    `source` is the image's place on the submitter's machine, if that is outside the project. `options` are
    words: the node's shell expands the variables in them, and nothing else (K2).
    """

    path: str
    remote: bool = False
    source: str | None = None
    options: tuple[str, ...] = ()


class SiteRequest(StoredRecord, frozen=True, kw_only=True):
    """The destination of the run (exactly one of `unicore_url` and `firecrest`), and the batch job's
    resources.

    None: not requested. The application runs in `apptainer`, or after the activation of `venv` (absolute on
    the site, or relative to the project), or in neither. The job writes its output into `log`; the variable
    `directory_variable` holds its working directory.
    """

    unicore_url: str | None = None
    firecrest: Firecrest | None = None
    queue: str
    nodes: int | None = None
    total_cpus: int | None = None
    cpus_per_node: int | None = None
    slots_per_node: int | None = None
    memory_per_node_bytes: int | None = None
    reservation: str | None = None
    constraints: str | None = None
    qos: str | None = None
    apptainer: Apptainer | None = None
    venv: str | None = None
    log: str = "job.log"
    directory_variable: str | None = None

    @property
    def address(self) -> SiteAddress | None:
        """The site as a cluster; None if the request names no site."""
        if self.unicore_url is not None:
            return unicore_address(self.unicore_url)
        return self.firecrest.address if self.firecrest is not None else None


def check_name(name: Any) -> str:
    """The name of a directive; raises InvalidInput for an invalid name, and for tarmac's own directives."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInput(f"{name!r:.100} is no directive", hint="such as 'constraint'")
    if name in RESERVED:
        raise InvalidInput(
            f"{name!r} is set by tarmac itself",
            hint=f"not to be changed: {listed(sorted(RESERVED), len(RESERVED))}",
        )
    return name


def check_value(value: Any) -> str | None:
    """The value of a directive: "" if it has none, None if it is dropped. Raises InvalidInput."""
    if value is None or value is False:
        return None
    text = "" if value is True else str(value)
    if text and not _VALUE.fullmatch(text):
        raise InvalidInput(
            f"{text!r:.200} is not allowed",
            hint="no quotes, backslashes, '#', '$' or control characters; null drops a directive",
        )
    return text
