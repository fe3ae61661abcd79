"""The request of a run with a system user (N15), for engines that take one and for those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from launches import launch, node, placement
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import AttemptSettings, render
from tarmac.model.errors import InvalidInput
from tarmac.node.attempt.document import RunsAs

LAYOUT = Layout(Path("/home"))
LAUNCH = launch(
    "name: digits\nsetup: [true]\ncommand: id\n", [node("n0")], [placement("main", 0, "n0")]
)._replace(runs_as=RunsAs("ann"))


def test_n15_an_engine_without_system_users_renders_no_request_for_one() -> None:
    """N15: even if a run of an account reaches such an engine after its submission."""
    with pytest.raises(InvalidInput, match="no run runs as the system user ann on this cluster"):
        render(LAUNCH, LAYOUT, AttemptSettings())


def test_n15_a_request_has_the_lowest_uid_and_environments_of_the_user() -> None:
    """N15: no user finds packages that another one has installed."""
    rendered = render(LAUNCH, LAYOUT, AttemptSettings(least_uid=2000)).document
    assert rendered.runs_as == RunsAs("ann", 2000)
    assert rendered.environments == "/home/environments/of/ann"
