"""What the local engine would be sent, as a person reads it: stable, and without secrets."""

from __future__ import annotations

from pathlib import Path

from engine_harness import make_launch
from golden import assert_golden
from tarmac.engines.attempts.layout import Layout
from tarmac.engines.attempts.request import AttemptSettings, render
from tarmac.node.attempt.document import Launch, NodeSettings

HERE = Path(__file__).parent
LAYOUT = Layout(Path("/home/ada/.local/state/tarmac"))
SETTINGS = AttemptSettings(node=NodeSettings(sdk="/opt/tarmac/shim", notify=str(LAYOUT.notify)))


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
    worker = node.workers[0]._replace(env={"Z": "1", "A": "x y\n'\"$(id)"}, slots=(3, 5))
    launch = launch._replace(nodes=(node._replace(workers=(worker,)),), pause_signal=None, grace_s=0.5)
    assert_golden(HERE / "hostile-values.txt", printed(launch))


def test_the_order_of_variables_does_not_matter() -> None:
    one, two = (make_launch(("work",)) for _ in range(2))
    forward, backward = {"A": "1", "B": "2"}, {"B": "2", "A": "1"}
    assert printed(one._replace(setup_env=forward)) == printed(two._replace(setup_env=backward))
