"""Which attempts get packages of their own: files for containers, and everybody's on a shared server (A7)."""

from __future__ import annotations

from pathlib import Path

import pytest

from launches import launch, node, placement
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import AttemptSettings, render
from tarmac.model.lifecycle import AttemptState, RunState
from tarmac.model.run import Allocation, Attempt, Run
from tarmac.node.attempt.document import NodeSettings
from tarmac.server.settings import AddressSettings, DatabaseSettings, Settings
from tarmac.systems.registry import apply_conventions, read

NATIVE = "name: digits\ncommand: pip install einops\n"
FILES = {
    "isc": """
isc_project_id = "00000000-0000-0000-0000-000000000000"
experiment_name = "digits"
gpus = 1
compute_mode = "cycle"
output_path = "/home/ada/out"
dataset_id = "11111111-1111-1111-1111-111111111111"
command = "pip install einops"
""",
    "mcli": "name: digits\nimage: bash\ncompute: {gpus: 0}\ncommand: pip install einops\n",
    "determined": "entrypoint: pip install einops\nsearcher: {name: single, metric: loss, max_length: 1}\n",
    "native": NATIVE,
}
NODE = NodeSettings(sdk="/sdk")
LAYOUT = Layout(Path("/home/ada/.local/state/tarmac"))


@pytest.mark.parametrize("system", FILES)
def test_a_file_for_a_container_gets_them(system: str) -> None:
    spec = read(FILES[system], filename="digits.yaml", directory="/home/ada").spec
    launched = launch(NATIVE, [node("n0")], [placement("main", 0, "n0")])
    allocation = Allocation(cluster="site-a", placements=(placement("main", 0, "n0"),))
    run = Run(id="r1", spec=spec, user="ada", state=RunState.STARTING, seq=1, created_at=1.0)
    attempt = Attempt(
        run_id="r1",
        number=1,
        state=AttemptState.STARTING,
        engine="local",
        allocation=allocation,
        token="secret",
        master_port=29501,
        created_at=2.0,
    )
    assert apply_conventions(run, attempt, launched).own_packages == (system != "native")


def test_they_are_asked_of_the_node_only_where_wanted() -> None:
    plain = launch(NATIVE, [node("n0")], [placement("main", 0, "n0")])
    assert not render(plain, LAYOUT, AttemptSettings(node=NODE)).document.own_packages
    wanted = [
        render(plain._replace(own_packages=True), LAYOUT, AttemptSettings(node=NODE)),
        render(plain, LAYOUT, AttemptSettings(node=NODE, own_packages=True)),
    ]
    for request in wanted:
        assert request.document.own_packages
        assert request.document.environments == str(LAYOUT.environments)


@pytest.mark.parametrize(
    ("settings", "shared"),
    [
        (Settings(), False),
        (Settings(server=AddressSettings(listen="127.0.0.1:8080")), True),
        (Settings(database=DatabaseSettings(url="postgresql+psycopg://db/tarmac")), True),
    ],
)
def test_a_server_that_others_may_use_is_shared(settings: Settings, shared: bool) -> None:
    assert settings.shared == shared
