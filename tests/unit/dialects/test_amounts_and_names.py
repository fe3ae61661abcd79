"""Durations, sizes, slots, names and limits, at their edges."""

from __future__ import annotations

import pytest

from tarmac.dialects.kinds import LARGEST_TEXT_BYTES
from tarmac.dialects.located import MOST_LISTED
from tarmac.model.errors import InvalidInput
from tarmac.model.spec import RunSpec
from tarmac.systems.registry import read


def spec(text: str, filename: str = "digits.yaml") -> RunSpec:
    return read(text, filename=filename, directory="/home/ada/digits").spec


def refusal(text: str) -> InvalidInput:
    with pytest.raises(InvalidInput) as caught:
        spec(text)
    return caught.value


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("1s", 1),
        ("90s", 90),
        ("10m", 600),
        ("2h", 7200),
        ("1d", 86400),
        ("1.5h", 5400),
        ("3650d", 3650 * 86400),
    ],
)
def test_durations(written: str, seconds: float) -> None:
    assert spec(f"time_limit: {written}\ncommand: a").time_limit_s == seconds


@pytest.mark.parametrize(
    "written", ["0s", "0.5s", "3651d", "-1s", "1 s", "1S", "1w", "s", "1e3s", "٣s", "1h30m"]
)
def test_what_is_no_duration(written: str) -> None:
    assert "time_limit: a duration such as" in str(refusal(f"time_limit: {written}\ncommand: a"))


@pytest.mark.parametrize(
    ("written", "size_bytes"),
    [
        ("1KiB", 1024),
        ("1.5MiB", 1572864),
        ("16GiB", 16 << 30),
        ("1TiB", 1 << 40),
        ("1KB", 1000),
        ("2 GB", 2 * 10**9),
    ],
)
def test_sizes(written: str, size_bytes: int) -> None:
    found = spec(f"resources: {{memory: {written}}}\ncommand: a").roles[0].replica_resources
    assert found.memory_bytes == size_bytes


@pytest.mark.parametrize("written", ["0GiB", "1025TiB", "16G", "16gib", "-1GiB", "GiB"])
def test_what_is_no_size(written: str) -> None:
    assert "resources.memory: a size such as" in str(refusal(f"resources: {{memory: {written}}}\ncommand: a"))


@pytest.mark.parametrize("written", ["0", "100000", "h100:0"])
def test_resources_may_be_none_and_many(written: str) -> None:
    assert spec(f"resources: {written}\ncommand: a").slots == int(written.rpartition(":")[2])


@pytest.mark.parametrize(
    "written", ["100001", "-1", "1.5", "08", "h100", ":8", "h100:eight", "true", "9" * 30]
)
def test_what_is_no_number_of_slots(written: str) -> None:
    assert "resources: a number of slots" in str(refusal(f"resources: {written}\ncommand: a"))


@pytest.mark.parametrize("name", ["a", "A-1", "v1.2_3", "9", "a" * 63])
def test_names(name: str) -> None:
    assert spec(f"name: {name}\ncommand: a").name == name


@pytest.mark.parametrize(
    "name", ["-a", "a.", "a" * 64, "a/b", "../a", "ä", "a b", '""', '"a\\n"', "$(id)", "a;b"]
)
def test_what_is_no_name(name: str) -> None:
    assert "name: a name of 1 to 63" in str(refusal(f"name: {name}\ncommand: a"))


@pytest.mark.parametrize(
    ("filename", "name"),
    [
        ("digits.yaml", "digits"),
        ("examples/01-hello/run.yaml", "run"),
        ("my digits (2).yaml", "my-digits-2"),
        ("train.v2.yaml", "train.v2"),
        ("noextension", "noextension"),
        ("-", "run"),
        ("", "run"),
        ("ää.yaml", "run"),
        ("x" * 200, "x" * 63),
    ],
)
def test_a_run_without_a_name_has_its_files(filename: str, name: str) -> None:
    assert spec("command: a", filename).name == name


@pytest.mark.parametrize(
    ("written", "path"),
    [
        (".", "/home/ada/digits"),
        ("../x", "/home/ada/x"),
        ("/data/x/", "/data/x"),
        ("src", "/home/ada/digits/src"),
    ],
)
def test_code_is_found_from_the_run_file(written: str, path: str) -> None:
    """C7: the local directory is deployed."""
    code = spec(f"code: {written}\ncommand: a").code
    assert code is not None
    assert code.path == path


def test_a_script_may_be_as_long_as_a_process_can_be_given() -> None:
    fits = "a" * LARGEST_TEXT_BYTES
    assert spec(f"command: {fits}").roles[0].processes[0].command.script == fits
    message = str(refusal(f"command: {fits}b"))
    assert "it has 102,401 bytes and 102,400 are allowed: put it into a file" in message
    assert len(message) < 400


def test_too_many_problems_are_counted() -> None:
    found = refusal("command: a\n" + "".join(f"wrong{number}: 1\n" for number in range(80))).problems
    assert len(found) == MOST_LISTED + 1
    assert found[-1].message == "and 30 more problems"


def test_the_submitted_text_is_kept_as_it_is() -> None:
    """M9: the submitted YAML can be shown."""
    source = "# mine\r\ncommand:   echo\n"
    assert spec(source).source == source


def test_what_is_asked_for_in_all() -> None:
    source = "roles:\n  a: {slots: 4, command: x}\n  b: {replicas: 3, resources: 2, command: y}\n"
    assert spec(source).slots == 10


@pytest.mark.parametrize("shape", ["0x0", "1x65", "101x1", "99999x9", "2x99999999"])
def test_a_rehearsal_of_a_size_that_cannot_be_says_how_large_it_may_be(shape: str) -> None:
    (problem,) = refusal(f"rehearse: {shape}\ncommand: a").problems
    assert problem.hint == "at most 100 nodes of 64 slots"
