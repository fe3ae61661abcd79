"""`python -m tarmac.server --home DIR`: starts a server. Run by the client on demand, or by a user.

It takes the lock and opens the socket before large imports: of two servers started at once, one ends within
milliseconds, and clients of the other can connect while it is still loading.
"""

import argparse
import gc
import logging
import os
import sys
from collections.abc import Sequence
from logging.handlers import RotatingFileHandler
from pathlib import Path

from tarmac.model.codec import replace
from tarmac.model.errors import TarmacError
from tarmac.model.home import Home, find_home
from tarmac.server.home_lock import HomeLock
from tarmac.server.http.listeners import listen_on_home, loopback_address
from tarmac.server.settings import read_settings
from tarmac.systems.settings import GATEWAY

_FILE_BYTES = 1_000_000
_OLD_FILES = 2
"""Limits of a server's log: the size of a file, and the number of older files."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until a stop request; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        home = Home(options.home.absolute()) if options.home else find_home(os.environ, user_home=Path.home())
        _run(home, options)
    except TarmacError as error:
        sys.stderr.write(f"tarmac server: {error}\n")
        return error.exit_code
    return 0


def _run(home: Home, options: argparse.Namespace) -> None:
    gc.disable()  # loading makes no garbage; collecting takes a tenth of the start (`daemon` enables it)
    lock = HomeLock(home)
    lock.take()
    os.chdir(home.root)
    _log_to(home)
    try:
        settings = read_settings(home.settings)
        if options.listen is not None:
            settings = replace(settings, server=replace(settings.server, listen=options.listen))
        if options.gateway is not None:
            settings = replace(settings, systems=settings.systems.at(options.gateway))
        if settings.systems.listen is not None:
            loopback_address(settings.systems.listen)  # before clients see a socket
        tls = None
        if settings.server.listen is not None:
            from tarmac.server.http.tls import tls_of  # noqa: PLC0415 - see the docstring

            tls = tls_of(settings.server, settings.server.listen, home)
        listener = listen_on_home(home.socket)
        from tarmac.server.daemon import serve  # noqa: PLC0415 - see the docstring

        serve(home, settings, listener, tls=tls, take_over=options.take_over)
    except TarmacError:
        raise
    except Exception as problem:  # the starting process reads one sentence, the log has the details
        logging.getLogger(__name__).exception("the server failed")
        raise TarmacError(
            f"the server failed ({type(problem).__name__}: {problem})", hint=f"the details are in {home.log}"
        ) from problem
    finally:
        lock.release()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tarmac.server", description="Serve one tarmac home.")
    parser.add_argument(
        "--home", type=Path, help="the tarmac home (default: TARMAC_HOME, else where XDG says)"
    )
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="also serve this address; any but loopback needs TLS"
    )
    parser.add_argument(
        f"--{GATEWAY}",
        dest="gateway",
        metavar="HOST:PORT",
        help="also answer that system's own command at this loopback address",
    )
    parser.add_argument(
        "--take-over",
        action="store_true",
        help="serve the cluster although another home or machine did, which is gone for good",
    )
    return parser


def _log_to(home: Home) -> None:
    """Write all log records to the home's log."""
    handler = RotatingFileHandler(home.log, maxBytes=_FILE_BYTES, backupCount=_OLD_FILES)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for chatty in ("alembic", "httpx", "uvicorn"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


if __name__ == "__main__":
    sys.exit(main())
