"""The server's log: `server.log` in the home, small, rotated. Set up by `__main__` early."""

from __future__ import annotations

import logging
from logging.handlers import RotatingFileHandler

from tarmac.model.home import Home

_FILE_BYTES = 1_000_000
_OLD_FILES = 2


def log_to(home: Home) -> None:
    """Send everything that is logged to the home's log."""
    handler = RotatingFileHandler(home.log, maxBytes=_FILE_BYTES, backupCount=_OLD_FILES)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    for chatty in ("alembic", "uvicorn"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
