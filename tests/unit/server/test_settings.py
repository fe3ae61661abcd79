"""Settings: what a file may say, how wrong ones are refused; docs/operating/settings.md is complete."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

import pages
from tarmac.dialects.pool_rules import POOL
from tarmac.dialects.quantities import written_duration, written_size
from tarmac.model.actor import ActorRole
from tarmac.model.cluster import Packing, Policy, Pool, ShareBy
from tarmac.model.errors import InvalidInput
from tarmac.server.setting_reader import Setting, settings_of
from tarmac.server.settings import TABLES, LocalNodes, Settings, SignOnSettings, read_settings

PAGE = Path(__file__).parents[3] / "docs/operating/settings.md"


def test_without_a_file_there_are_defaults(tmp_path: Path) -> None:
    assert read_settings(tmp_path / "settings.toml") == Settings()


def test_a_whole_file(tmp_path: Path) -> None:
    settings = _read(
        tmp_path,
        '[database]\nurl = "sqlite:////x"\n[server]\nlisten = "127.0.0.1:1"\n[list]\nended_days = 3\n'
        '[[local]]\nnodes = 2\nslots = 4\nslot_type = "h100"\npool = "p"\nshard = "s"\n'
        'hostnames = ["a", "b"]\ncpus = 2.5\nmemory = "64GiB"\n'
        "[[local]]\nslots = 1\n",
    )
    assert settings.database.url == "sqlite:////x"
    assert (settings.server.listen, settings.listing.ended_days) == ("127.0.0.1:1", 3.0)
    big, small = settings.local
    assert (big.nodes, big.slots, big.slot_type, big.pool, big.shard, big.hostnames) == (
        2,
        4,
        "h100",
        "p",
        "s",
        ("a", "b"),
    )
    assert (big.cpus, big.memory_bytes) == (2.5, 64 * 2**30)
    assert (small.nodes, small.slots, small.hostnames, small.slot_type) == (1, 1, (), "cpu")
    assert (small.cpus, small.memory_bytes) == (None, None)


def test_a_pool_of_the_local_cluster_has_rules(tmp_path: Path) -> None:
    """I11, I12: policies, preemption, turns and periods are settings of a pool."""
    settings = _read(
        tmp_path,
        '[pools.default]\npolicy = "fair_share"\npreemption = true\npacking = "spread"\n'
        'guaranteed = "0s"\nshare_by = "project"\nshares = { vision = 2, "some text" = 0.5 }\n'
        'half_life = "1d"\nbackfill_window = "5m"\nturn = "5s"\nperiod = "1m"\nfloor = "10s"\n',
    )
    assert settings.pools == (
        Pool(
            cluster="local",
            policy=Policy.FAIR_SHARE,
            preemption=True,
            packing=Packing.SPREAD,
            guaranteed_s=0.0,
            backfill_window_s=300.0,
            share_by=ShareBy.PROJECT,
            shares={"vision": 2.0, "some text": 0.5},
            half_life_s=86_400.0,
            turn_s=5.0,
            period_s=60.0,
            floor_s=10.0,
        ),
    )


def test_the_page_lists_every_pool_rule_with_its_default(tmp_path: Path) -> None:
    rules = pages.settings("[pools.NAME]")
    assert {key for key, _, _ in rules} == set(POOL.fields)
    lines = {
        key: f"{key} = {repr(default) if kind == 'text' else default}"
        for key, kind, default in rules
        if default != "none"
    }
    shared = {key: lines.pop(key) for key in ("share_by", "shares", "half_life")}
    text = "\n".join(["[pools.default]", *lines.values()])
    assert _read(tmp_path, text).pools == (Pool(cluster="local"),)
    text = "\n".join(["[pools.default]", "policy = 'fair_share'", *shared.values()])
    assert _read(tmp_path, text).pools == (Pool(cluster="local", policy=Policy.FAIR_SHARE),)


def test_slot_types_are_compared_without_regard_to_case(tmp_path: Path) -> None:
    (group,) = _read(tmp_path, '[[local]]\nslots = 1\nslot_type = "H100"\n').local
    assert group.slot_type == "h100"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[databse]\nurl = 'x'\n", "databse is no setting (did you mean database?)"),
        ("[database]\nrul = 'x'\n", "database.rul is no setting (did you mean database.url?)"),
        ("[server]\nlisten = 8400\n", "server.listen: text is expected, not 8400"),
        ("[list]\nended_days = -1\n", "list.ended_days: at least 0 is expected, not -1"),
        ("[list]\nended_days = true\n", "list.ended_days: a number is expected, not True"),
        ("list = 3\n", "list: a table is expected, not 3"),
        ("[local]\nslots = 1\n", "local: write [[local]]"),
        ("[[local]]\nnodes = 1\n", "local[0].slots is missing"),
        ("[[local]]\nslots = 1\nhostnames = [1]\n", "local[0].hostnames: a list of names is expected"),
        ("[[local]]\nslots = 1\nnodes = 0\n", "local[0].nodes: at least 1 is expected, not 0"),
        ("[server\n", "it is not TOML"),
        (
            "[[local]]\nslots = 1\nmemory = '3'\n",
            "local[0].memory: a size such as 512MiB or 16GiB is expected",
        ),
        ("[pools.default]\npolcy = 'priority'\n", "unknown field 'polcy' (did you mean 'policy'?)"),
        ("[pools.default]\npolicy = 'prio'\n", "pools.default.policy: one of priority, fair_share"),
        (
            "[pools.default]\nturn = 90\n",
            "pools.default.turn: a duration such as 90s, 10m, 2h or 1d is expected",
        ),
        ("[pools.default]\npreemption = 'true'\n", "pools.default.preemption: true or false is expected"),
        ("[pools.default]\nshares = { ada = 2 }\n", "nothing is shared under policy priority"),
        ("[pools.default]\nperiod = '1m'\n", "a block of at least 300s does not fit into a period of 60s"),
        ("[pools.default]\nidle_pause = '2h'\n", "a run is reported before it is paused"),
        ("[pools.default]\nidle_report = '2h'\nidle_pause = '1h'\n", "write a shorter idle_report"),
        ("[submission]\nhook = '/bin/true'\n", "submission.hook: a list is expected, not '/bin/true'"),
        ("[submission]\nhook_timeout_s = 0\n", "submission.hook_timeout_s: at least 1 is expected, not 0"),
        ("[pools.big]\nturn = '5s'\n", "pools.big: no node is in this pool (pools with nodes: default)"),
        ("[sign_on]\nissuer = 'https://x'\n", "sign_on: issuer and client_id belong together"),
        ("[sign_on]\nclient_id = 'x'\nissuer = 'http://x'\n", "'http://x' is no address with https://"),
        ("[sign_on]\nclient_secret_file = 'x'\n", "sign_on.client_secret_file: an absolute path is expected"),
        (
            "[sign_on]\ngroups = { a = 'admin', b = 'root' }\n",
            "sign_on.groups: a table of admin, member, viewer is expected, not {'a': 'admin', 'b': 'root'}",
        ),
        (
            "[sign_on]\ngroups = { a = 1 }\n",
            "sign_on.groups: a table of admin, member, viewer is expected, not {'a': 1}",
        ),
        ("pools = 3\n", "pools: pools by name, each with its rules, is expected, not '3'"),
    ],
)
def test_what_is_wrong_is_said_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        _read(tmp_path, text)
    assert message in str(refused.value)
    assert refused.value.problems[0].file == str(tmp_path / "settings.toml")


def test_groups_give_roles(tmp_path: Path) -> None:
    text = "[sign_on]\nissuer = 'https://id.example'\nclient_id = 'x'\ngroups = { 'gpu-admins' = 'admin' }\n"
    assert _read(tmp_path, text).sign_on == SignOnSettings(
        issuer="https://id.example", client_id="x", groups={"gpu-admins": ActorRole.ADMIN}
    )
    assert type(_read(tmp_path, text).sign_on.groups["gpu-admins"]) is ActorRole


def test_all_problems_are_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput) as refused:
        _read(tmp_path, "[sever]\nlisten = 1\n[list]\nended_days = 'x'\n")
    assert len(refused.value.problems) == 2


def test_the_page_lists_every_setting() -> None:
    tables = {f"[{name}]": record for name, record in TABLES.items()} | {"[[local]]": LocalNodes}
    headings = re.findall(r"^## `(.*)`", PAGE.read_text(), flags=re.MULTILINE)
    assert set(headings) == {*tables, "[pools.NAME]"}
    for name, record in tables.items():
        assert pages.settings(name) == [_row(setting) for setting in settings_of(record)]


def _row(setting: Setting) -> tuple[str, str, str]:
    default = setting.field.default
    if default is msgspec.NODEFAULT:
        default = setting.field.default_factory()
    if setting.notation is not None and default is not None:
        default = {"a size": written_size, "a duration": written_duration}[setting.notation](default)
    shown = list(default) if isinstance(default, tuple) else default
    return setting.key, setting.written, "none" if shown is None else str(shown)


def _read(directory: Path, text: str) -> Settings:
    path = directory / "settings.toml"
    path.write_text(text)
    return read_settings(path)
