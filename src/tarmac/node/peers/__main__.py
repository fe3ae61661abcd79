"""The program: a worker is `launch NAME each|itself COMMAND...`, or `rendezvous COMMAND...`."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile

if not __package__:
    # Run by path, so no module of the run takes precedence.
    sys.path[0] = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), *[".."] * 3))

from tarmac.node.peers.serving import PACKAGE, WAIT_S, Hub, remote, run_rank, serve, start

_FORWARDED = (signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)


def main() -> int:
    """Execute the verb in the first argument; returns the exit code."""
    verb, arguments = sys.argv[1], sys.argv[2:]
    if verb == "rank":
        return run_rank(arguments)
    address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    if verb == "remote":
        return remote(address, arguments)
    if verb == "rendezvous":
        return _meet(address, arguments)
    rank, slots = int(os.environ["NODE_RANK"]), int(os.environ["N_PROC"])
    os.environ["PEER_NAME"], name = arguments[0], f"rank{rank}"
    os.environ["PEER_DIRECTORY"] = os.getcwd()
    directory = tempfile.mkdtemp(prefix="peers-")
    try:
        if rank:
            return serve(address, name, slots)
        script = arguments[2:]
        if arguments[1] != "itself":  # once for every slot of the host file
            script = ["mpirun", "--map-by", "slot", sys.executable, "-E", "-S", PACKAGE, "rank", *script]
        return _first(address, name, slots, script, directory)
    except (OSError, TimeoutError) as problem:
        sys.stderr.write(f"tarmac: the nodes do not find one another: {problem}\n")
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _meet(address: "tuple[str, int]", script: "list[str]") -> int:
    from tarmac.node.peers.rendezvous import execute  # noqa: PLC0415 - an HTTP server: for Horovod alone

    try:
        execute(address, script)
    except OSError as problem:
        sys.stderr.write(f"tarmac: {script[0]} cannot be started with a meeting point: {problem}\n")
    return 127


def _first(address: "tuple[str, int]", name: str, slots: int, script: "list[str]", directory: str) -> int:
    hub = Hub(address, nodes=int(os.environ["NNODES"]), name=name, slots=slots)
    try:
        try:
            process = start(script, hub.wait(WAIT_S), directory)
        except FileNotFoundError:
            sys.stderr.write("tarmac: there is no program 'mpirun' here: install Open MPI on every node\n")
            return 127
        for number in _FORWARDED:
            signal.signal(number, lambda received, _frame: process.send_signal(received))
        signal.signal(signal.SIGTERM, lambda _number, _frame: None)  # its own group also got it
        code = process.wait()
        return code if code >= 0 else 128 - code
    finally:
        hub.close()


if __name__ == "__main__":
    sys.exit(main())
