"""A call of an engine that was closed meanwhile, as that of a removed cluster is, has no answer."""

from __future__ import annotations

import pytest

from tarmac.engines.firecrest.api import Api
from tarmac.model.errors import Unavailable


def test_a_closed_firecrest_gives_no_answer() -> None:
    api = Api("http://127.0.0.1:9", "system", "http://127.0.0.1:9/token", lambda: ("client", "secret"))
    api.close()
    with pytest.raises(Unavailable, match="no token"):
        api.get("/status/systems")
