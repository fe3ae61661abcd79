"""The providers of the contract suite, each with an account whose books and knobs the tests have.

`FakeHarness` is the fake itself; `MachinesHarness` reaches the same account through commands, `Ec2Harness` an
account of EC2 through boto3.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from msgspec import convert, to_builtins

from ec2_answers import Ec2Error
from ec2_proxy import KEY, REGION, Ec2Fault
from ec2_server import IMAGE, ec2_account
from fake_provider import CREATE, DELETE, LIST, PRICE, Books, FakeProvider, Fault, Knobs, throttled
from tarmac.model.burst.provider import (
    AnswerLost,
    Provider,
    ProviderRecord,
    RentedThing,
    RentRefused,
    RentRequest,
    ThingKind,
)
from tarmac.model.burst.shapes import Shape
from tarmac.model.errors import Unavailable
from tarmac.providers.kinds import provider_kinds
from tarmac.providers.machines import REFUSALS, TRY_LATER

OWNER, RUN = "owner-1", "run-1"
START = 1_800_000_000.0


class Harness(ABC):
    """A provider on a clock of its own."""

    provider: Provider
    books: Books
    knobs: Knobs
    machine = "m5.large"
    price = 1.5

    def __init__(self) -> None:
        self.clock = START
        self.opened = ExitStack()

    def now(self) -> float:
        return self.clock

    def advance(self, seconds: float) -> None:
        self.clock += seconds

    def request(self, request_id: str = "request-1", *, machines: int = 2, spot: bool = False) -> RentRequest:
        return RentRequest(
            id=request_id,
            owner=OWNER,
            run=RUN,
            shape=self.shape(spot=spot),
            machines=machines,
            script="#!/bin/sh\necho 'it''s on' > /tmp/$TARMAC\n",
        )

    def shape(self, *, spot: bool = False) -> Shape:
        return Shape(
            id="shape", provider="p", region=REGION, machine=self.machine, rate=2.0, cpus=2, spot=spot
        )

    def ours(self) -> Sequence[RentedThing]:
        """The listed things with our tag."""
        return [each for each in self.provider.list() if each.owner == OWNER]

    def machines(self) -> Sequence[RentedThing]:
        """The listed machines with our tag."""
        return [each for each in self.ours() if each.kind is ThingKind.MACHINE]

    @abstractmethod
    def lose(self, operation: str, *, after: bool) -> None:
        """Lose the answer of the next call, before or after its effect."""

    @abstractmethod
    def throttle(self, operation: str) -> None:
        """Accept the next call not."""

    @abstractmethod
    def stranger(self, kind: ThingKind, owner: str | None) -> str:
        """Create a thing as another program (no owner), or another server, would; its id."""

    @abstractmethod
    def shut_down(self, machine_id: str) -> None:
        """A machine shuts itself down."""

    @abstractmethod
    def notice(self, machine_id: str) -> None:
        """The provider announces that it takes a machine back in two minutes."""

    def close(self) -> None:
        """End everything that was opened."""
        self.opened.close()


class FakeHarness(Harness):
    """The fake, called directly."""

    def __init__(self) -> None:
        super().__init__()
        self.account = FakeProvider(self.now, knobs=Knobs(disks=1, prices={self.machine: self.price}))
        self.provider = self.account
        self.books, self.knobs = self.account.books, self.account.knobs

    def lose(self, operation: str, *, after: bool) -> None:
        self.account.faults[operation].append(Fault(error=AnswerLost("lost"), after=after))

    def throttle(self, operation: str) -> None:
        self.account.faults[operation].append(throttled())

    def stranger(self, kind: ThingKind, owner: str | None) -> str:
        return self.account.stranger(kind=kind, owner=owner).id

    def shut_down(self, machine_id: str) -> None:
        self.account.kill(machine_id)

    def notice(self, machine_id: str) -> None:
        self.account.notice(machine_id)


_COMMAND = """\
import json, os, socket, sys
asked = {name: value for name, value in os.environ.items() if name.startswith(("TARMAC_", "CLOUD_"))}
line = json.dumps([sys.argv[2], json.load(sys.stdin), asked]) + "\\n"
with socket.socket(socket.AF_UNIX) as connection:
    connection.connect(sys.argv[1])
    connection.sendall(line.encode())
    code, output, words = json.loads(connection.makefile().readline())
if code is None:
    os.kill(os.getpid(), 9)
sys.stdout.write(output)
sys.stderr.write(words)
sys.exit(code)
"""


class MachinesHarness(FakeHarness):
    """The same account behind commands; `asked` are the questions and variables that they got."""

    def __init__(self, directory: Path) -> None:
        super().__init__()
        self.asked: list[tuple[str, Any, dict[str, str]]] = []
        program, address = directory / "rent.py", str(directory / "account")
        program.write_text(_COMMAND)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(address)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()
        command = f"{sys.executable} -S {program} {address}"
        record = ProviderRecord(
            name="rack",
            kind="machines",
            settings={name: f"{command} {name}" for name in (CREATE, LIST, DELETE, PRICE)},
            credentials={"CLOUD_TOKEN": "rack-token"},
            owner=OWNER,
        )
        kind = provider_kinds(lambda uses: {each.name: f"value of {each.name}\n" for each in uses})[
            "machines"
        ]
        kind.check(record)
        self.provider = kind.open(record)

    def close(self) -> None:
        super().close()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection:
            asked = json.loads(connection.makefile().readline())
            self.asked.append(tuple(asked))
            connection.sendall((json.dumps(self._done(*asked)) + "\n").encode())

    def _done(self, name: str, question: Any, variables: Mapping[str, str]) -> tuple[int | None, str, str]:
        try:
            if name == CREATE:
                request = convert(question, RentRequest)
                assert variables["TARMAC_SCRIPT"] == request.script
                answer: Any = self.account.create(request)
            elif name == LIST:
                answer = self.account.list()
            elif name == DELETE:
                self.account.delete(convert(question["things"], tuple[RentedThing, ...]))
                answer = None
            else:
                answer = {"rate": self.account.price(convert(question["shape"], Shape))}
        except RentRefused as refused:
            code = next(code for code, refusal in REFUSALS.items() if refusal is refused.refusal)
            return code, "", f"some notice\n{refused}\n"
        except Unavailable as error:
            return TRY_LATER, "", str(error)
        except AnswerLost:
            return None, "", ""
        return 0, json.dumps(to_builtins(answer)), ""


class Ec2Harness(Harness):
    """An account of EC2 behind the proxy, whose two subnets are zones."""

    price = 0.00001

    def __init__(self, moto_port: int) -> None:
        super().__init__()
        self.account, self.url = self.opened.enter_context(ec2_account(moto_port, self.now))
        self.books, self.knobs = self.account.books, self.account.knobs
        self.subnets = self.account.subnets()
        self.provider = self.open(KEY)

    def open(self, key: str, **settings: str) -> Any:
        """An adapter with these credentials and more settings."""
        record = ProviderRecord(
            name="aws",
            kind="ec2",
            settings={
                "region": REGION,
                "image": IMAGE,
                "subnets": ",".join(self.subnets),
                "url": self.url,
                "timeout": "20s",
                **settings,
            },
            credentials={"access_key": "key", "secret_key": "secret"},
            owner=OWNER,
        )
        kind = provider_kinds(lambda uses: {"key": key, "secret": "none"})["ec2"]
        kind.check(record)
        return kind.open(record)

    def lose(self, operation: str, *, after: bool) -> None:
        self.account.fail(_ACTIONS[operation], Ec2Fault(after=after))

    def throttle(self, operation: str) -> None:
        error = Ec2Error(503, "RequestLimitExceeded", "Request limit exceeded.")
        self.account.fail(_ACTIONS[operation], Ec2Fault(error=error))

    def stranger(self, kind: ThingKind, owner: str | None) -> str:
        return self.account.stranger(kind, {} if owner is None else {"tarmac-owner": owner}, image=IMAGE)

    def shut_down(self, machine_id: str) -> None:
        self.account.shut_down(machine_id)

    def notice(self, machine_id: str) -> None:
        self.account.notice(machine_id)


_ACTIONS = {
    CREATE: "RunInstances",
    LIST: "DescribeInstances",
    DELETE: "TerminateInstances",
    PRICE: "DescribeSpotPriceHistory",
}
