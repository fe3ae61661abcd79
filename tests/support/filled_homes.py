"""A home with a long past: runs of every kind, experiments, artifacts and people, by the store's own code.

For tests and measurements of the page. The same number of runs always gives the same content, of the same
age. Its server has 1,001 nodes; one run in ten waits, and runs of another server work.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from tarmac.artifacts.versions.blobs import MARK
from tarmac.artifacts.versions.manifest import FILE, Entry, Manifest, Version, to_bytes
from tarmac.model.actor import ActorRole
from tarmac.model.changes import NewRun, RunStep
from tarmac.model.cluster import DEFAULT_POOL, LOCAL_CLUSTER
from tarmac.model.codec import replace
from tarmac.model.experiment import Experiment, ExperimentChange, Trial
from tarmac.model.home import Home
from tarmac.model.lifecycle import AttemptState, ExperimentState, Mode, RunEvent, RunState, TrialState
from tarmac.model.people.account import Account, AuditEntry, Membership, Token
from tarmac.model.people.limits import CreditEntry, EntryKind, Limit
from tarmac.model.progress import Cause, CauseCode, Outcome, StepEvent, WorkerPlacement
from tarmac.model.run import Allocation, Attempt, Run
from tarmac.model.run_records import Dataset, DatasetState
from tarmac.model.search import ParameterRange, RangeKind, SearchMethod, SearchSpec, TrialPlace
from tarmac.model.spec import Command, Process, Role, RunSpec, Target
from tarmac.store.sql import SqlStore, open_store

QUICK_DISK = Path("/dev/shm")
"""The database is made there: it has a transaction for each of many records."""

BUSY, BIG, FAR = "busy", "big", "far"
"""The pool where runs wait, the pool of the many nodes, and the cluster of another server."""

SETTINGS = f"""
[[local]]
nodes = 1
slots = 8
pool = "{BUSY}"
[[local]]
nodes = 1000
slots = 8
pool = "{BIG}"
"""
FAMILIES = ("resnet", "vit", "bert", "llama", "unet", "whisper", "mamba", "diffusion")
USERS = tuple(f"{name}{number}" for number in range(10) for name in ("ada", "bob", "eve", "kim", "lee"))
PROJECTS = ("vision", "speech", "nlp", "robots", "weather", "proteins", "search", "default")
KINDS = {"waiting": 100, "far": 5, "paused": 5, "failed": 120, "stopped": 60, "completed": 710}
"""The kinds of runs, and how many of a thousand are of each."""

AGE_S = 28 * 86_400.0
AT_ONCE = 1_000
IN_ARRAY = 50
TRIALS = 8
AUDITED = 10_000
_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_FAILURE = Cause(code=CauseCode.EXIT_CODE, message="main.0.0 ended with exit code 1", exit_code=1)


@dataclass(frozen=True, slots=True)
class Filled:
    """What is in a filled home: the id of its largest experiment, and those of ended runs with artifacts."""

    experiment: str
    ended: tuple[str, ...]


def fill(home: Home, runs: int) -> Filled:
    """Fill the empty home of a server that has not started."""
    home.root.mkdir(parents=True, exist_ok=True)
    home.settings.write_text(SETTINGS)
    with TemporaryDirectory(dir=QUICK_DISK if QUICK_DISK.is_dir() else None) as directory:
        filling = _Filling(open_store(f"sqlite:///{directory}/tarmac.db"), runs)
        try:
            filling.people()
            filling.holder()
            experiment = filling.experiments()
            filling.others()
        finally:
            filling.store.close()
        shutil.copy(Path(directory) / "tarmac.db", home.database)
        home.database.chmod(0o600)
    _keep(home, filling.ended)
    return Filled(experiment=experiment, ended=tuple(run.id for run in filling.ended[-20:]))


def id_of(at: float, number: int) -> str:
    """An id that sorts by time."""
    value = int(at * 1000) << 15 | number & 0x7FFF
    return "r" + "".join(_DIGITS[value >> 5 * place & 31] for place in reversed(range(12)))


class _Filling:
    """The work of `fill` on the database."""

    def __init__(self, store: SqlStore, runs: int) -> None:
        self.store, self.runs, self.now = store, runs, time.time()
        self.ended: list[Run] = []
        self._random = Random(runs)
        self._specs = [_spec(number) for number in range(400)]
        self._made = 0

    def holder(self) -> None:
        """The run that gets the pool where the others wait."""
        spec = _spec(0, name="holds", slots=8, script="sleep 86400")
        self._create([self._new("waiting", replace(spec, priority=1000, time_limit_s=86_400.0))])

    def experiments(self) -> str:
        """A tenth of the runs as trials of ended experiments; returns the id of the largest of them."""
        sizes = [max(TRIALS, self.runs // 100)] + [TRIALS] * (self.runs // 100)
        found = [self._experiment(size) for size in sizes]
        return found[0]

    def others(self) -> None:
        """Runs of their own, and members of arrays, of all kinds."""
        left = self.runs - self._made
        kinds = iter(self._random.choices([*KINDS], [*KINDS.values()], k=left))
        array: str | None = None
        while part := list(islice(kinds, AT_ONCE)):
            new = []
            for index, kind in enumerate(part):
                made = self._new(kind, self._specs[self._made // 7 % len(self._specs)])
                array = made.run.id if index == 0 else array
                if index < IN_ARRAY:
                    made = replace(made, run=replace(made.run, array_id=array, array_index=index))
                new.append(made)
            self._create(new)
            self._finish([(item.run, kind) for item, kind in zip(new, part, strict=True)])

    def people(self) -> None:
        """Accounts and all that they keep."""
        accounts, limits, now = self.store.accounts, self.store.limits, self.now
        for user in USERS:
            accounts.put_account(Account(name=user, created_at=now - AGE_S))
            token = Token(id=f"t-{user}", user=user, label="laptop", created_at=now - AGE_S)
            accounts.add_token(token, digest=f"digest-{user}")
        for number, project in enumerate(PROJECTS[:-1]):
            accounts.put_membership(Membership(project=project, user=USERS[number], role=ActorRole.MEMBER))
        accounts.add_audit(
            [
                AuditEntry(
                    at=now - AGE_S + number,
                    user=USERS[number % len(USERS)],
                    origin="127.0.0.1",
                    action="POST /runs",
                    target=f"r{number}",
                    status=201,
                )
                for number in range(AUDITED)
            ]
        )
        for user in USERS:
            limits.put(Limit(user=user, slots=4096))
        limits.add(
            [
                CreditEntry(account=f"user:{user}", kind=EntryKind.GRANT, at=now, amount=1e6, key="first")
                for user in USERS
            ]
        )
        for number in range(200):
            self.store.put_dataset(
                Dataset(
                    id=f"data-{number:03}",
                    source=f"/data/{number}",
                    user=USERS[0],
                    created_at=now - number,
                    state=DatasetState.AVAILABLE,
                    path=f"/data/{number}",
                    server="local",
                )
            )

    def _new(self, kind: str, spec: RunSpec) -> NewRun:
        """A run, a step younger than the one before."""
        at = self.now - AGE_S * (1 - self._made / (self.runs + 1))
        self._made += 1
        paused, far = kind == "paused", kind == "far"
        events = (RunEvent.STAGED, RunEvent.PAUSE_REQUESTED) if paused else (RunEvent.STAGED,)
        run = Run(
            id=id_of(at, self._made),
            spec=replace(spec, target=Target(cluster=FAR)) if far else spec,
            user=USERS[self._made * 7 % len(USERS)],
            state=RunState.PAUSED if paused else RunState.QUEUED,
            seq=1 + len(events),
            created_at=at,
            queued_at=at,
            server=FAR if far else LOCAL_CLUSTER,
        )
        return NewRun(run=run, events=events)

    def _create(self, new: list[NewRun]) -> None:
        self.store.create_runs(new)

    def _finish(self, made: Iterable[tuple[Run, str]]) -> None:
        """Let the runs start, and end, that are of such a kind."""
        steps = [self._step(run, kind) for run, kind in made if kind not in ("waiting", "paused")]
        assert all(self.store.apply(steps)), "nobody else changes these runs"
        self.ended += [each.after for each in steps if each.after.ended_at is not None]

    def _step(self, run: Run, kind: str) -> RunStep:
        """Placed and started, and unless it is far away, ended."""
        started_at, slots, far = (
            run.created_at + self._random.expovariate(1 / 600),
            run.spec.slots,
            kind == "far",
        )
        ended_at = started_at + min(self._random.expovariate(1 / 3600), max(1.0, self.now - started_at - 1))
        node = f"{FAR if far else 'node'}{self._random.randrange(2, 1002)}"
        placement = WorkerPlacement(role="main", replica=0, node=node, slots=tuple(range(slots)))
        outcome, cause = None if far else Outcome(kind), _FAILURE if kind == "failed" else None
        attempt = Attempt(
            run_id=run.id,
            number=1,
            state=AttemptState.RUNNING if far else AttemptState.ENDED,
            engine="local",
            allocation=Allocation(
                cluster=FAR if far else LOCAL_CLUSTER,
                pool=DEFAULT_POOL if far else BIG,
                placements=(placement,),
            ),
            token="token",
            master_port=29_000,
            created_at=run.created_at,
            started_at=started_at,
            ended_at=None if far else ended_at,
            outcome=outcome,
            cause=cause,
        )
        times = [(RunEvent.PLACED, run.created_at), (RunEvent.STARTED, started_at)]
        times += [] if far else [(RunEvent.FINISHED, ended_at)]
        after = replace(
            run,
            state=RunState.RUNNING if far else RunState.ENDED,
            seq=run.seq + len(times),
            attempt=1,
            started_at=started_at,
            ended_at=attempt.ended_at,
            outcome=outcome,
            cause=cause,
            attained_slot_s=0.0 if far else slots * (ended_at - started_at),
        )
        events = tuple(StepEvent(event=event, at=at) for event, at in times)
        return RunStep(before=run, after=after, events=events, attempt=attempt)

    def _experiment(self, trials: int) -> str:
        name = f"e{id_of(self.now - AGE_S, self._made)[1:]}"
        template = self._specs[self._made % len(self._specs)]
        lr = ParameterRange(path=("lr",), kind=RangeKind.LOG, low=-5.0, high=-1.0)
        search = SearchSpec(
            method=SearchMethod.RANDOM, metric="loss", max_trials=trials, max_time=10, space=(lr,)
        )
        new, records = [], []
        for number in range(1, trials + 1):
            place = TrialPlace(experiment=name, number=number, metric="loss")
            spec = replace(template, name=f"{template.name}.{number}", trial=place)
            new.append(self._new("completed", spec))
            best = self._random.random()
            records.append(
                Trial(
                    experiment=name,
                    run_id=new[-1].run.id,
                    number=number,
                    parameters={"lr": 10 ** -(1 + 4 * self._random.random())},
                    state=TrialState.ENDED,
                    latest=best,
                    best=best,
                    at=10.0,
                    best_at=10.0,
                    end="completed",
                )
            )
        after = Experiment(
            id=name,
            user=USERS[self._made % len(USERS)],
            created_at=new[0].run.created_at,
            state=ExperimentState.ENDED,
            outcome=Outcome.COMPLETED,
            ended_at=self.now,
            progress=1.0,
            spec=replace(template, search=search),
            server=LOCAL_CLUSTER,
        )
        change = ExperimentChange(before=None, after=after, trials=tuple(records), new_runs=tuple(new))
        self.store.experiments.create(change)
        self._finish([(item.run, "completed") for item in new])
        return name


def _spec(number: int, *, name: str = "", slots: int = 0, script: str = "") -> RunSpec:
    family = FAMILIES[number % len(FAMILIES)]
    command = Command(script=script or f"python train.py --model {family} --seed {number}")
    return RunSpec(
        name=name or f"{family}-{number:03}",
        roles=(Role(processes=(Process(command=command),), replicas=None, slots=slots or 1 << number % 4),),
        project=PROJECTS[number % 7] if number % 3 else PROJECTS[-1],
        labels={"team": f"team-{number % 9}", "try": str(number % 40)},
        mode=Mode.CYCLE if number % 31 == 7 else Mode.BATCH,
        time_limit_s=3600.0 * (1 + number % 12),
        target=Target(pool=BUSY),
    )


def _keep(home: Home, ended: Iterable[Run]) -> None:
    """A checkpoint of every ended run, of which only the manifest is there."""
    (home.artifacts / MARK).parent.mkdir(parents=True, exist_ok=True)
    for run in ended:
        version = Version(run.id, "checkpoint", 0, 1)
        entry = Entry(path="weights.bin", kind=FILE, size_bytes=1 << 20)
        at = run.ended_at or 0.0
        manifest = Manifest(version=version, attempt=1, created_at=at, read_at=at, entries=(entry,))
        path = home.artifacts / version.name
        path.parent.mkdir(parents=True)
        path.write_bytes(to_bytes(manifest))
