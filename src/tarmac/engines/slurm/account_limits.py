"""Detects a job that waits for a limit of its account or QoS which it can never satisfy.

Slurm has the same word for a job that waits for others of its group to end, and for one that exceeds the
limit and never starts. Used by `SlurmEngine` while one of its jobs waits for such a limit: answers come at
once from the last read; if that is old, a thread reads again.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock

from tarmac.engines.slurm.commands import BackgroundReader, Commands
from tarmac.engines.slurm.partition import parse_duration, parse_partitions
from tarmac.engines.slurm.queue import Job
from tarmac.engines.slurm.states import Reason

_COLUMNS = {"JobID": 16, "Account": 64, "QOS": 64, "Partition": 128, "UserID": 16, "TimeLimit": 24}
WAITING = (
    *("squeue", "--me", "--noheader", "--states=PENDING"),
    f"--Format={','.join(f'{name}:{width}' for name, width in _COLUMNS.items())},tres-alloc:512",
)
ASSOCIATIONS = ("scontrol", "show", "assoc_mgr")

_WORD = re.compile(
    r"(?P<holder>Assoc|QOS)Grp(?P<what>[A-Za-z]+?)(?P<minutes>RunMinutes)?(Limit)?"
    r"|(?P<user>QOSMax)(?P<of_user>[A-Za-z]+?)PerUser(Limit)?"
    r"|(?P<account>Max)(?P<of_account>[A-Za-z]+?)PerAccount"
)
_RESOURCES = {"cpu": "cpu", "mem": "mem", "memory": "mem", "node": "node", "billing": "billing"}
_UNITS = {
    **{"cpu": "processors", "mem": "MiB of memory", "node": "nodes", "billing": "billed units"},
    "gres/gpu": "GPUs",
}
_MIB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2, "P": 1024.0**3}
_AMOUNT = re.compile(r"([0-9]+(?:\.[0-9]+)?)([KMGTP]?)")
_LIMIT = re.compile(r"([^=,]{1,64})=([0-9.]{1,32}[KMGTP]?)\(")
"""Matches `cpu=2(0),mem=N(0)`: an existing limit precedes its current use, in brackets."""

OTHERS_S = 5.0
"""The interval of reads for a job that the last read did not include."""

_LONGEST_CHAIN = 16
_ADVICE = "Submit it with fewer slots or nodes, or for another --pool whose account or QoS gives more."


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitingJob:
    """A job's request: `amounts` by resource in Slurm's names (memory in MiB), `minutes` of time."""

    account: str
    user_id: str
    qos: tuple[str, ...]
    amounts: Mapping[str, float]
    minutes: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of an association or QoS: by the field of `scontrol show assoc_mgr`, then by resource."""

    name: str
    parent: str = ""
    fields: Mapping[str, Mapping[str, float]]


class AccountLimits:
    """The limits of accounts and QoS for tarmac's jobs, read at most every `every_s`. Thread-safe.

    `tell` is called with an attempt whose job was found to exceed one.
    """

    def __init__(self, commands: Commands, tell: Callable[[str], None], *, every_s: float) -> None:
        self._commands = commands
        self._tell = tell
        self._reader = BackgroundReader(
            self._read, "the limits of accounts", every_s=every_s, again_s=every_s
        )
        self._lock = Lock()
        self._open: dict[str, Job] = {}
        self._known: Mapping[str, tuple[str, Reason | None]] = {}

    def exceeded_by(self, job: Job) -> Reason | None:
        """The reason why a waiting job never starts, by the last read; None if it will, or if unknown."""
        if _WORD.fullmatch(job.reason) is None:
            return None
        with self._lock:
            self._open[job.id] = job
        self._reader.when_due(early_s=None if job.id in self._known else OTHERS_S)
        word, reason = self._known.get(job.id, ("", None))
        return reason if word == job.reason else None

    def _read(self) -> None:
        with self._lock:
            jobs, self._open = self._open, {}
        words = {job.id: job.reason for job in jobs.values()}
        reasons = dict(self._exceeded(words))
        self._known = {job_id: (word, reasons.get(job_id)) for job_id, word in words.items()}
        for job_id, reason in reasons.items():
            if reason is not None:
                self._tell(jobs[job_id].attempt_id)

    def _exceeded(self, jobs: Mapping[str, str]) -> Iterator[tuple[str, Reason | None]]:
        partitions = parse_partitions(self._commands.query(["scontrol", "show", "partition", "-o"]))
        of_partitions = {name: fields.get("QoS", "") for name, fields in partitions.items()}
        waiting = parse_waiting(self._commands.query(WAITING), of_partitions)
        associations: dict[tuple[str, str], list[Limits]] = {}
        for job_id, word in jobs.items():
            job = waiting.get(job_id)
            if job is None:
                continue
            key = (job.account, job.user_id)
            if key not in associations:
                associations[key] = list(self._associations(job))
            yield job_id, never(word, job, associations[key], self._qos(job.qos))

    def _associations(self, job: WaitingJob) -> Iterator[Limits]:
        """The associations of the user in the account, of the account, and of its ancestors."""
        account = job.account
        for _ in range(_LONGEST_CHAIN):
            text = self._commands.query(
                [*ASSOCIATIONS, "flags=assoc", f"users={job.user_id}", f"accounts={account}"]
            )
            found = list(parse_associations(text))
            yield from found
            account = next((each.parent for each in found if each.parent), "")
            if not account:
                return

    def _qos(self, names: Sequence[str]) -> list[tuple[str, str]]:
        if not names:
            return []
        text = self._commands.query([*ASSOCIATIONS, "flags=qos", f"qos={','.join(names)}"])
        return qos_records(text, names)


def parse_waiting(text: str, of_partitions: Mapping[str, str]) -> dict[str, WaitingJob]:
    """The request of each job, by its id, from the lines of WAITING; `of_partitions`: their own QoS."""
    found: dict[str, WaitingJob] = {}
    for line in text.splitlines():
        values, begin = {}, 0
        for name, width in _COLUMNS.items():
            values[name] = line[begin : begin + width].strip()
            begin += width
        limit_s = parse_duration(values["TimeLimit"])
        of_partition = (of_partitions.get(name, "") for name in values["Partition"].split(","))
        found[values["JobID"]] = WaitingJob(
            account=values["Account"],
            user_id=values["UserID"],
            qos=tuple(dict.fromkeys(name for name in (values["QOS"], *of_partition) if name not in _NO_QOS)),
            amounts=dict(_amounts(line[begin:].strip())),
            minutes=float("inf") if limit_s is None else limit_s / 60,
        )
    return found


_NO_QOS = ("", "N/A", "(null)")


def parse_associations(text: str) -> Iterator[Limits]:
    """The associations in the output of `scontrol show assoc_mgr flags=assoc`."""
    for account, block in _blocks(text, "Account"):
        user = _after(block, "UserName=").partition("(")[0]
        name = f"your user in account {account}" if user else f"account {account}"
        parent = _after(block, "ParentAccount=").partition("(")[0]
        yield Limits(name=name, parent=parent, fields=_fields(block))


def qos_records(text: str, names: Sequence[str]) -> list[tuple[str, str]]:
    """The names of these QoS, and their records in `scontrol show assoc_mgr flags=qos`."""
    return [(name, block) for name, block in _blocks(text, "QOS") if name in names]


def never(
    word: str, job: WaitingJob, associations: Sequence[Limits], qos: Sequence[tuple[str, str]]
) -> Reason | None:
    """The reason why a job waiting for `word` never starts; None if other jobs only have to end."""
    match = _WORD.fullmatch(word)
    if match is None:
        return None
    field, minutes = "GrpTRESRunMins" if match["minutes"] else "GrpTRES", bool(match["minutes"])
    what = (match["what"] or match["of_user"] or match["of_account"]).lower()
    holders = list(associations)
    if match["user"]:
        holders = [_within(name, block, "User Limits", job.user_id, "a user") for name, block in qos]
        field = "MaxTRESPU"
    elif match["account"]:
        holders = [_within(name, block, "Account Limits", job.account, "an account") for name, block in qos]
        field = "MaxTRESPA"
    elif match["holder"] == "QOS":
        holders = [Limits(name=f"QoS {name}", fields=_fields(block)) for name, block in qos]
    for holder in holders:
        for resource, limit in holder.fields.get(field, {}).items():
            amount = job.amounts.get(resource, 0.0) * (job.minutes if minutes else 1)
            if _is(resource, what) and amount > limit:
                return _larger(holder.name, resource, limit=limit, amount=amount, minutes=minutes)
    return None


def _larger(name: str, resource: str, *, limit: float, amount: float, minutes: bool) -> Reason:
    unit = _UNITS.get(resource, resource.removeprefix("gres/"))
    unit = f"minutes of {unit}" if minutes else unit
    request = "time without an end" if amount == float("inf") else f"{amount:g}"
    text = f"{name} may have at most {limit:g} {unit} at once, and this job asks for {request}"
    return Reason(text, _ADVICE, stuck=True)


def _is(resource: str, what: str) -> bool:
    """Whether a resource, in the names of limits, is the one in the reason."""
    if what == "gres":
        return resource.startswith("gres/")
    if what == "license":
        return resource.startswith("license/")
    return resource == _RESOURCES.get(what)


def _within(name: str, block: str, heading: str, whose: str, words: str) -> Limits:
    """The limits of a QoS for this user or account, two lines below its name."""
    part = block.partition(f"    {heading}\n")[2]
    match = re.search(rf"^      {re.escape(whose)}(?:\(.*\))?\n((?:        .*\n?)+)", part, re.MULTILINE)
    return Limits(name=f"{words} under QoS {name}", fields=_fields(match[1]) if match else {})


def _blocks(text: str, key: str) -> Iterator[tuple[str, str]]:
    """The records of `scontrol show assoc_mgr`, each by the value of a key in its first line."""
    for block in re.split(r"^(?=\S)", text, flags=re.MULTILINE):
        match = re.match(rf"(?:.* )?{key}=([^ (\n]+)", block)
        if match is not None:
            yield match[1], block


def _after(text: str, key: str) -> str:
    return text.partition(key)[2].partition(" ")[0].partition("\n")[0]


def _fields(block: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {}
    for word in block.split():
        field, _, values = word.partition("=")
        if field.startswith(("GrpTRES", "MaxTRES")):
            limits = {match[1]: _amount(match[2]) for match in _LIMIT.finditer(values)}
            found.setdefault(field, limits)
    return found


def _amounts(text: str) -> Iterator[tuple[str, float]]:
    for item in text.split(","):
        resource, _, value = item.partition("=")
        if _AMOUNT.fullmatch(value):
            yield resource, _amount(value)


def _amount(text: str) -> float:
    match = _AMOUNT.fullmatch(text)
    return float(match[1]) * _MIB[match[2] or "M"] if match is not None else 0.0
