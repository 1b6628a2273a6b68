"""The text exposition format 0.0.4 of Prometheus, and a predictor's counters in it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from sojourn.serving.live import COUNTERS
from sojourn.serving.predictor import Predictor

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The Content-Type of the text."""


LATENCY_EDGES_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Upper edges of the buckets of a latency histogram; a last bucket has no edge."""


@dataclass(slots=True)
class Histogram:
    """Counts of times in the buckets of LATENCY_EDGES_S, and their sum; one writer at a time.

    >>> times = Histogram()
    >>> for seconds in (0.001, 0.3, 99.0):
    ...     times.add(seconds)
    >>> times.cumulative()[:2], times.cumulative()[-2:], times.sum_s
    ([1, 1], [2, 3], 99.301)
    """

    sum_s: float = 0.0
    _counts: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_EDGES_S) + 1))

    def add(self, seconds: float) -> None:
        """Count a time; a bucket holds its upper edge."""
        self._counts[bisect_left(LATENCY_EDGES_S, seconds)] += 1
        self.sum_s += seconds

    def cumulative(self) -> list[int]:
        """How many times were at most each edge, and how many there were."""
        return list(accumulate(self._counts))


@dataclass(frozen=True, slots=True)
class Metric:
    """Samples of one name: pairs of labels and value. help: its description, one line.

    Of a histogram, values are histograms; each becomes the samples `_bucket`, `_sum` and `_count`.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: tuple[tuple[Mapping[str, str], float | Histogram], ...]

    @classmethod
    def of(cls, name: str, kind: Literal["counter", "gauge"], help: str, value: float) -> Metric:
        """A metric without labels."""
        return cls(name, kind, help, (({}, value),))


def exposition(metrics: Iterable[Metric]) -> str:
    """The metrics as text.

    >>> pods = Metric("pods", "gauge", "Pods that run.", (({"node": "a"}, 2), ({"node": "b"}, 0.5)))
    >>> print(exposition([pods]), end="")
    # HELP pods Pods that run.
    # TYPE pods gauge
    pods{node="a"} 2
    pods{node="b"} 0.5
    """
    lines = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        for labels, value in metric.samples:
            if isinstance(value, Histogram):
                counts = value.cumulative()
                lines += [_sample(f"{metric.name}_bucket", {**labels, "le": edge}, count)
                          for edge, count in zip([*map(str, LATENCY_EDGES_S), "+Inf"], counts, strict=True)]
                lines += [_sample(f"{metric.name}_sum", labels, value.sum_s),
                          _sample(f"{metric.name}_count", labels, counts[-1])]
            else:
                lines.append(_sample(metric.name, labels, value))
    return "\n".join(lines) + "\n"


def predictor_metrics(predictor: Predictor) -> list[Metric]:
    """`sojourn_NAME_total` for each counter, `sojourn_bundle_info`, and, if there is a shadow, its differences.

    Counters continue over reloads, so only the info gauge has the version.
    """
    metrics = [Metric.of(f"sojourn_{name}_total", "counter", COUNTERS[name], count)
               for name, count in predictor.counters.items()]
    info = predictor.info()
    labels = {name: str(info[name]) for name in ("version", "family", "kind")}
    shadow = predictor.shadow()
    if shadow["version"] is not None:
        samples = tuple(({"quantile": str(share)}, value) for share, value in shadow["log10_ratio"].items())
        metrics.append(Metric("sojourn_shadow_log10_ratio", "gauge",
                              "Quantiles of |log10(shadow / champion)| of the remaining time at creation: upper edge "
                              "of a bin that is 10^0.05 wide (12 %).", samples))
        metrics.append(Metric("sojourn_shadow_info", "gauge", "The bundle that answers as the shadow; always 1.",
                              (({"version": shadow["version"]}, 1),)))
    return [*metrics, Metric("sojourn_bundle_info", "gauge", "The bundle that is served; always 1.", ((labels, 1),))]


def prometheus_text(predictor: Predictor) -> str:
    """The counters and `sojourn_bundle_info`, in the text exposition format 0.0.4."""
    return exposition(predictor_metrics(predictor))


def _sample(name: str, labels: Mapping[str, str], value: float) -> str:
    text = ",".join(f'{label}="{_escaped(each)}"' for label, each in labels.items())
    return f"{name}{f'{{{text}}}' if text else ''} {value:.15g}"


def _escaped(value: str) -> str:
    """A label's value between quotation marks; characters outside UTF-8 become question marks.

    >>> print(_escaped('a "b"' + chr(10) + chr(92)))
    a \\"b\\"\\n\\\\
    """
    plain = value.encode(errors="replace").decode()
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
