"""Metrics in the text format that Prometheus reads (version 0.0.4). Used by `server/operation.py`."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Kind(StrEnum):
    """The type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Sample:
    """One value. In a histogram, `suffix` is `_bucket`, `_sum` or `_count`."""

    value: float
    labels: Mapping[str, str]
    suffix: str = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric with all its values."""

    name: str
    kind: Kind
    help: str
    samples: tuple[Sample, ...]


def counted(name: str, text: str, values: Mapping[tuple[str, ...], float], *labels: str) -> Metric:
    """A counter with a value for each combination of these labels."""
    return Metric(name, Kind.COUNTER, text, _samples(values, labels))


def measured(name: str, text: str, values: Mapping[tuple[str, ...], float], *labels: str) -> Metric:
    """A gauge with a value for each combination of these labels."""
    return Metric(name, Kind.GAUGE, text, _samples(values, labels))


def rendered(metrics: Iterable[Metric]) -> str:
    """The metrics as text."""
    return "".join(f"{line}\n" for metric in metrics for line in _lines(metric))


def _samples(values: Mapping[tuple[str, ...], float], labels: tuple[str, ...]) -> tuple[Sample, ...]:
    return tuple(Sample(value, dict(zip(labels, key, strict=True))) for key, value in sorted(values.items()))


def _lines(metric: Metric) -> Iterator[str]:
    text = metric.help.replace("\\", "\\\\").replace("\n", "\\n")
    yield f"# HELP {metric.name} {text}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for sample in metric.samples:
        labels = ",".join(f'{name}="{_escaped(value)}"' for name, value in sample.labels.items())
        yield f"{metric.name}{sample.suffix}{f'{{{labels}}}' if labels else ''} {_number(sample.value)}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
