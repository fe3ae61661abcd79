"""What the local engine would be sent, as a person reads it: stable, and without secrets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from engine_harness import make_launch
from golden import assert_golden
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import NodeSettings, render
from tarmac.model.launch import Launch

HERE = Path(__file__).parent
LAYOUT = Layout(Path("/home/ada/.local/state/tarmac"))
SETTINGS = NodeSettings(sdk="/opt/tarmac/shim", notify=str(LAYOUT.notify))


def printed(launch: Launch) -> str:
    return str(render(launch, LAYOUT, SETTINGS)) + "\n"


def test_two_nodes_with_code_and_setup() -> None:
    launch = make_launch(
        ("bash", "-ec", "torchrun train.py\necho done"),
        nodes=2,
        code_digest="0123abcd",
        setup=(("pip", "install", "-r", "requirements.txt"),),
        time_limit_s=7200.0,
    )
    assert_golden(HERE / "two-nodes.txt", printed(launch))


def test_hostile_values_stay_what_they_are() -> None:
    """Quotes, newlines and expansions in arguments and variables are data, in the file and in print."""
    launch = make_launch(("echo", "it's $HOME", "a\nb", 'say "hi"', "; rm -rf /", "é", "--flag=`id`"))
    (node,) = launch.nodes
    worker = replace(node.workers[0], env={"Z": "1", "A": "x y\n'\"$(id)"}, slots=(3, 5))
    launch = replace(launch, nodes=(replace(node, workers=(worker,)),), pause_signal=None, grace_s=0.5)
    assert_golden(HERE / "hostile-values.txt", printed(launch))


def test_the_order_of_variables_does_not_matter() -> None:
    one, two = (make_launch(("work",)) for _ in range(2))
    forward, backward = {"A": "1", "B": "2"}, {"B": "2", "A": "1"}
    assert printed(replace(one, setup_env=forward)) == printed(replace(two, setup_env=backward))
