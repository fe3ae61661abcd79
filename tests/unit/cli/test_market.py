"""Rates through gpuhunt: its catalogue is downloaded from a server of the test, or read from a directory."""

from __future__ import annotations

import io
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tarmac.cli.burst.market import present_rates
from tarmac.model.burst.shapes import Shape
from tarmac.model.errors import InvalidInput, Unavailable

HEAD = "instance_name,location,price,cpu,memory,gpu_count,gpu_name,gpu_memory,spot,disk_size,gpu_vendor"
OFFERS = f"""{HEAD}
p5.48xlarge,us-east-1,55.04,192,2048.0,8,H100,80.0,False,,nvidia
p5.48xlarge,us-east-1,31.00,192,2048.0,8,H100,80.0,True,,nvidia
p5.48xlarge,us-east-1,30.60,192,2048.0,8,H100,80.0,True,,nvidia
p5.48xlarge,eu-north-1,60.00,192,2048.0,8,H100,80.0,False,,nvidia
c7i.large,us-east-1,0.09,2,4.0,0,,,False,,
"""


def shape(name: str, machine: str, *, slots: int = 8, slot_type: str = "h100", **more: object) -> Shape:
    known = {"provider": "ours", "region": "us-east-1", "rate": 1.0, "rated_on": "2026-01-01"}
    values = {**known, "slots": slots, "slot_type": slot_type, **more}
    return Shape(id=name, machine=machine, **values)  # type: ignore[arg-type]


SHAPES = [
    shape("on-demand", "p5.48xlarge", credits=70.0),
    shape("spot", "p5.48xlarge", spot=True),
    shape("cpu", "c7i.large", slots=2, slot_type="cpu"),
    shape("elsewhere", "p5.48xlarge", region="eu-west-3"),
    shape("in-euros", "p5.48xlarge", currency="EUR"),
    shape("four-of-it", "p5.48xlarge", slots=4),
]


@pytest.fixture
def catalogue(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A public bucket: the catalogue of one provider has offers, those of the others have none."""

    class Bucket(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            provider = self.path.split("/")[1]
            packed = io.BytesIO()
            with zipfile.ZipFile(packed, "w") as archive:
                archive.writestr(f"{provider}.csv", OFFERS if provider == "aws" else HEAD)
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b"1" if self.path.endswith("/version") else packed.getvalue())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Bucket) as server:
        threading.Thread(target=server.serve_forever).start()
        monkeypatch.setenv("GPUHUNT_CATALOG_URL", f"http://127.0.0.1:{server.server_address[1]}")
        yield
        server.shutdown()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # gpuhunt closes no file
def test_a_shape_gets_the_rate_of_the_same_machine_in_the_same_region(
    catalogue: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """I13: on demand and spot apart, the cheapest of several; explicit credits stay. Then offline."""
    rated, unknown = present_rates(SHAPES, ["aws"], "2026-11-02")
    assert {each.id: (each.rate, each.credits, each.rated_on) for each in rated} == {
        "on-demand": (55.04, 70.0, "2026-11-02"),
        "spot": (30.6, None, "2026-11-02"),
        "cpu": (0.09, None, "2026-11-02"),
    }
    assert unknown == ["elsewhere", "in-euros", "four-of-it"]
    assert all(type(each) is Shape for each in rated)
    (tmp_path / "aws.csv").write_text(OFFERS.replace("55.04", "55.05"))
    monkeypatch.setenv("GPUHUNT_CATALOG_DIR", str(tmp_path))
    assert present_rates(SHAPES[:1], ["aws"], "2026-11-02")[0][0].rate == 55.05


def test_an_unknown_provider_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUHUNT_CATALOG_DIR", str(tmp_path))
    with pytest.raises(InvalidInput, match="gpuhunt: Unknown provider: amazon"):
        present_rates(SHAPES, ["amazon"], "2026-11-02")
    with pytest.raises(Unavailable, match=r"aws.csv") as missing:
        present_rates(SHAPES, ["aws"], "2026-11-02")
    assert "python -m gpuhunt" in str(missing.value.hint)


def test_without_gpuhunt_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gpuhunt", None)  # as where it is not installed
    with pytest.raises(Unavailable, match="needs gpuhunt") as refused:
        present_rates(SHAPES, [], "2026-11-02")
    assert "pip install 'tarmac[shapes]'" in str(refused.value.hint)
