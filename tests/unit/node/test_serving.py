"""The far end of a connection: its threads."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable
from typing import Any

from tarmac.node.host import frames
from tarmac.node.host.serving import SPARE_THREADS, Server

BOUND_S = 60.0


def requests(*names: str) -> io.BytesIO:
    messages = [{"id": number, "do": name, "with": {}} for number, name in enumerate(names)]
    return io.BytesIO(b"".join(frames.pack(message) for message in messages))


def served(operations: dict[str, Callable[..., Any]], *streams: io.BytesIO) -> list[dict[str, Any]]:
    """The answers of one server to all of these, in the order in which they come."""
    reads, writes = os.pipe()
    with os.fdopen(reads, "rb") as answers:
        for stream in streams:
            Server(writes, operations.__getitem__).run(stream)
        found = []
        for stream in streams:
            stream.seek(0)
            while frames.read(stream) is not None:
                answer = frames.read(answers)
                assert answer is not None
                found.append(answer)
        os.close(writes)
    return found


def test_a_request_that_hangs_holds_up_no_other() -> None:
    go = threading.Event()
    names = ["hangs"] * (SPARE_THREADS + 4) + ["goes"]
    found = served({"hangs": lambda: go.wait(BOUND_S), "goes": go.set}, requests(*names))
    assert {answer["id"]: answer["result"] for answer in found} == {
        **dict.fromkeys(range(SPARE_THREADS + 4), True),
        SPARE_THREADS + 4: None,
    }


def test_a_request_that_cannot_be_done_is_answered() -> None:
    """Another version may ask for something that is not known here, or with other arguments."""

    def wants(more: object) -> object:
        return more

    (answer,) = served({"wants": wants}, requests("wants"))
    assert answer["id"] == 0
    assert answer["refused"].startswith("wants failed: TypeError: ")


def test_threads_that_are_done_take_later_requests_and_end_with_the_connection() -> None:
    names: set[str] = set()
    reads, writes = os.pipe()
    requested, request = os.pipe()
    server = Server(writes, lambda _: lambda: names.add(threading.current_thread().name))
    with os.fdopen(reads, "rb") as answers, os.fdopen(requested, "rb") as stream:
        run = threading.Thread(target=server.run, args=(stream,))
        run.start()
        for number in range(50):
            os.write(request, frames.pack({"id": number, "do": "note", "with": {}}))
            assert frames.read(answers) == {"id": number, "result": None}
        os.close(request)
        run.join(BOUND_S)
        threads = [thread for thread in threading.enumerate() if thread.name in names]
        for thread in threads:
            thread.join(BOUND_S)
            assert not thread.is_alive()
    os.close(writes)
    assert len(names) < 50
