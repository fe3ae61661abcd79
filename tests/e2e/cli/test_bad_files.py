"""Ten bad run files: ten errors somebody can act on, exit code 2, nothing left behind."""

from __future__ import annotations

import pytest

from shell import Shell

BAD = {
    "empty": ("", "empty.yaml"),
    "not_yaml": ("name: [a\ncommand: x\n", "not_yaml.yaml:"),
    "no_command": ("name: a\n", "command"),
    "unknown_field": ("name: a\ncommand: x\nslot: 2\n", "did you mean 'slots'?"),
    "wrong_type": ("name: a\ncommand: x\nslots: many\n", "'many'"),
    "negative": ("name: a\ncommand: x\nslots: -1\n", "-1"),
    "bad_duration": ("name: a\ncommand: x\ntime_limit: 3 weeks\n", "'3 weeks'"),
    "bad_name": ("name: ../../etc\ncommand: x\n", "'../../etc'"),
    "no_such_code": ("name: a\ncommand: x\ncode: ./nowhere\n", "nowhere"),
    "twice": ("name: a\nname: b\ncommand: x\n", "name"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_with_what_is_wrong(settled: Shell, name: str) -> None:
    text, told = BAD[name]
    settled.write(f"{name}.yaml", text)
    result = settled.tarmac("run", f"{name}.yaml", code=2)
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert told in result.stderr
    assert settled.json("ls", "--all") == {"runs": []}
    assert list((settled.home / "runs").glob("*")) == []
    assert [path for path in (settled.home / "code").rglob("*") if path.is_file()] == []


def test_what_a_file_names_of_this_machine_must_be_there(settled: Shell) -> None:
    """K2: `check` sees what a submission would: missing code, an image that only a rehearsal can lack."""
    code = settled.write("code.yaml", "code: not-there\nslots: 1\ncommand: echo\n")
    assert "not-there does not exist" in settled.tarmac("check", code, code=2).stderr
    settled.write("project/MLproject", "name: x\nentry_points: {main: {command: echo}}\n")
    config = "UnicoreApiUrl: https://hpc.example.org:8080/SITE/rest/core\nResources: {Queue: batch}\n"
    image = settled.write("project/backend.yaml", f"{config}Environment:\n  Apptainer: {{Path: image.sif}}\n")
    missing = f"the image {settled.directory}/project/image.sif does not exist"
    assert missing in settled.tarmac("check", image, code=2).stderr
    assert missing in settled.tarmac("run", image, "--rehearse", "1x1", code=0).stderr
    refused = settled.tarmac("run", image, "--cluster", "local", code=2)
    assert "image.sif does not exist" in refused.stderr
    settled.write("project/image.sif", "")
    assert "does not exist" not in settled.tarmac("check", image, code=0).stderr


def test_all_problems_of_a_file_come_at_once_with_their_lines(settled: Shell) -> None:
    settled.write("bad.yaml", "name: a b\nslot: 2\ncommand: x\ntime_limit: soon\n")
    result = settled.tarmac("run", "bad.yaml", code=2)
    for place in ("bad.yaml:1:7: ", "bad.yaml:2:1: ", "bad.yaml:4:13: "):
        assert f"error: {place}" in result.stderr
    assert "  2 | slot: 2\n    | ^\n" in result.stderr
    assert settled.tarmac("check", "bad.yaml", code=2).stderr == result.stderr


def test_options_are_checked_like_fields(settled: Shell) -> None:
    settled.write("good.yaml", "name: a\ncommand: x\n")
    result = settled.tarmac("run", "good.yaml", "--time-limit", "soon", "--rehearse", "2by1", code=2)
    assert result.stderr.count("error: ") == 2
    assert settled.tarmac("check", "good.yaml", code=0).stdout.startswith("good.yaml: ok")


def test_findings_as_json(settled: Shell) -> None:
    settled.write("good.yaml", "name: a\ncommand: x\n")
    settled.write("bad.yaml", "name: a\nslot: 1\ncommand: x\n")
    good, bad = settled.json("check", "good.yaml", "bad.yaml", code=2)["files"]
    assert (good["problems"], good["run"]["name"]) == ([], "a")
    assert [(item["line"], item["hint"]) for item in bad["problems"]] == [(2, "did you mean 'slots'?")]
