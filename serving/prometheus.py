"""A predictor's counters as Prometheus reads them."""

from __future__ import annotations

from sojourn.serving.counters import COUNTERS
from sojourn.serving.predictor import Predictor

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The header under which the text is to be sent."""


def prometheus_text(predictor: Predictor) -> str:
    """The counters and `sojourn_model_info`, in the text exposition format 0.0.4.

    Counters run on over reloads, so only the info gauge bears the version.
    """
    lines = []
    for name, count in predictor.counters.items():
        lines += _head(f"sojourn_{name}_total", COUNTERS[name], "counter")
        lines.append(f"sojourn_{name}_total {count}")
    info = predictor.info()
    labels = ",".join(f'{name}="{_escaped(str(info[name]))}"' for name in ("version", "family", "kind"))
    lines += _head("sojourn_model_info", "The model that is served; always 1.", "gauge")
    lines.append(f"sojourn_model_info{{{labels}}} 1")
    return "\n".join(lines) + "\n"


def _head(name: str, text: str, kind: str) -> list[str]:
    return [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]


def _escaped(value: str) -> str:
    """A label's value between its quotation marks; what UTF-8 cannot hold becomes a question mark.

    >>> print(_escaped('a "b"' + chr(10) + chr(92)))
    a \\"b\\"\\n\\\\
    """
    plain = value.encode(errors="replace").decode()
    return plain.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
