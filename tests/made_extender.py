"""A predictor of known lifetimes, example documents, and a client for an extender that runs in this process."""

from __future__ import annotations

import http.client
import json
import math
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from sojourn.serving import Lifetime, Predictor
from sojourn.serving.curves.curve import OnceCurve
from sojourn.serving.extender.calls import ExtenderCalls
from sojourn.serving.extender.nodes import Drains, Nodes, PodColumns
from sojourn.serving.http import JsonServer

EXAMPLES = Path(__file__).parent / "serving" / "extender" / "extender_examples"
SIX_OCLOCK_S = 1_772_344_800
"""2026-03-01 06:00 UTC."""
HOUR_S = 3_600


def example(name: str) -> Any:
    """An example document."""
    return json.loads((EXAMPLES / f"{name}.json").read_bytes())


class FixedLifetime:
    """What of a `Lifetime` the extender uses, with a pod's name for its version."""

    def __init__(self, name: str, total_s: float, arrival_s: int) -> None:
        curve = OnceCurve(total_s, math.log10(total_s), (0.0, 0.0))
        self.remaining, self.quantile, self.next_change = curve.remaining, curve.quantile, curve.next_change
        self.version = name
        self.arrival_s = arrival_s


class FixedPredictor:
    """Each pod's total lifetime in seconds by its name; it doubles once it is outlived. Notes admissions and ends."""

    def __init__(self, totals_s: Mapping[str, float]) -> None:
        self.totals_s = totals_s
        self.admitted: list[tuple[str, int]] = []
        self.ends: list[tuple[str, int]] = []

    def predict(self, request: Mapping[str, Any], now_s: int) -> Lifetime:
        name = request["user"]
        return cast(Lifetime, FixedLifetime(name, self.totals_s[name], now_s))

    def admit(self, request: Mapping[str, Any], now_s: int, *, arrival_s: int,
              request_id: str | None = None) -> Lifetime:
        assert arrival_s <= now_s
        self.admitted.append((request["user"], arrival_s))
        return self.predict(request, arrival_s)

    def ended(self, vm: Lifetime, now_s: int) -> None:
        self.ends.append((vm.version, now_s))


class Clock:
    """Unix seconds that stand still until they are set."""

    def __init__(self, now_s: int = SIX_OCLOCK_S) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s + 0.75


def fixed_nodes(totals_s: Mapping[str, float], n_pods_max: int = 100) -> tuple[Nodes, FixedPredictor]:
    """Nodes on a clock of unix seconds, over known lifetimes by pod name."""
    predictor = FixedPredictor(totals_s)
    columns = PodColumns({"user": "metadata.name"}, frozenset())
    return Nodes(cast(Predictor, predictor), columns, epoch_s=0, n_pods_max=n_pods_max), predictor


def fixed_calls(totals_s: Mapping[str, float],
                n_pods_max: int = 100) -> tuple[ExtenderCalls, FixedPredictor, Clock]:
    """The extender's calls over known lifetimes by pod name."""
    nodes, predictor = fixed_nodes(totals_s, n_pods_max)
    clock = Clock()
    return ExtenderCalls(nodes, Drains("sojourn/drain-by"), epoch_s=0, clock=clock), predictor, clock


def pod(name: str, node: str | None = None, **status: Any) -> dict[str, Any]:
    """A pod with the uid `uid-NAME`."""
    return {"metadata": {"name": name, "uid": f"uid-{name}"}, "spec": {"nodeName": node} if node else {},
            "status": status}


@contextmanager
def serving(server: JsonServer) -> Iterator[JsonServer]:
    """The server at work in a thread until the block is left."""
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def connect(server: JsonServer) -> http.client.HTTPConnection:
    """A client connection; it is kept alive between requests."""
    return http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=30)


def ask(connection: http.client.HTTPConnection, path: str, document: Any = None) -> tuple[int, Any]:
    """Status and JSON answer to a posted document, or, without one, to a GET."""
    if document is None:
        connection.request("GET", path)
    else:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        connection.request("POST", path, body, {"Content-Type": "application/json"})
    response = connection.getresponse()
    return response.status, json.loads(response.read())
