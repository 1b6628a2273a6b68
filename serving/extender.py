"""A Kubernetes scheduler extender: nodes are scored by whether a pod would keep them up for longer.

    python -m sojourn.serving.extender BUNDLE [--host 127.0.0.1] [--port 8899] [--columns FILE] [--epoch-s N]

Answers `filter` and `prioritize` of `k8s.io/kube-scheduler/extender/v1`; learns placements and ends from `/placed`,
`/ended` and `/running`, and deadlines of nodes from `/nodes`. docs/extender.md tells the rest.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sojourn.serving.bundle import Bundle, load_bundle
from sojourn.serving.drains import DEFAULT_ANNOTATION, Drains
from sojourn.serving.encoder import Encoder
from sojourn.serving.extender_calls import ExtenderCalls
from sojourn.serving.json_server import JsonServer, Limits
from sojourn.serving.nodes import Nodes
from sojourn.serving.pod_columns import PodColumns
from sojourn.serving.predictor import Predictor

_MONDAY_S = 4 * 86_400
_WEEK_S = 7 * 86_400


@dataclass(frozen=True, slots=True)
class Settings:
    """sources: request column -> where it comes from in a pod (default: DEFAULT_SOURCES). epoch_s: unix time at the
    bundle clock's 0 (default: `default_epoch_s`). The rest: see ExtenderCalls, Drains, Nodes and Limits.
    """

    sources: Any = None
    epoch_s: int | None = None
    drain_annotation: str = DEFAULT_ANNOTATION
    drain_quantile: float = 0.9
    n_pods_max: int = 100_000
    limits: Limits = field(default_factory=Limits)


def default_epoch_s(encoder: Encoder) -> int:
    """The least unix time >= 0 for the bundle clock's 0 at which its hours and weekdays are right.

    >>> from sojourn.serving.history import HistoryDefinition
    >>> default_epoch_s(Encoder((), (), HistoryDefinition(()), phase_s=3 * 86_400))  # unix time itself: a Thursday
    0
    """
    return (_MONDAY_S + encoder.phase_s) % _WEEK_S


def bind(bundle: Bundle, host: str, port: int, settings: Settings | None = None,
         clock: Callable[[], float] = time.time) -> JsonServer:
    """A server of a bundle, bound (port 0: any free one) but not yet serving.

    clock: unix seconds now. ValueError for a wrong setting, OSError for an address that cannot be bound to.
    """
    chosen = Settings() if settings is None else settings
    encoder = bundle.schema.encoder
    epoch_s = default_epoch_s(encoder) if chosen.epoch_s is None else chosen.epoch_s
    predictor = Predictor(bundle)
    nodes = Nodes(predictor, PodColumns.of(encoder, chosen.sources), epoch_s=epoch_s, n_pods_max=chosen.n_pods_max)
    drains = Drains(chosen.drain_annotation)
    calls = ExtenderCalls(nodes, drains, epoch_s=epoch_s, drain_quantile=chosen.drain_quantile, clock=clock)

    def metrics() -> tuple[str, str]:
        counters = {f"sojourn_predictor_{name}_total": count for name, count in predictor.counters.items()}
        counters |= {"sojourn_extender_nodes_refused_total": calls.n_nodes_refused,
                     "sojourn_extender_unreadable_deadlines_total": drains.n_unreadable}
        gauges = {"sojourn_extender_pods": nodes.n_pods, "sojourn_extender_nodes_in_use": len(nodes)}
        return "text/plain; version=0.0.4; charset=utf-8", metrics_text(counters, gauges, server)

    server = JsonServer(host, port, calls.posts, {
        "/healthz": lambda: ("application/json", json.dumps({"status": "ok", "version": predictor.version})),
        "/metrics": metrics,
    }, chosen.limits)  # fmt: skip
    return server


def metrics_text(counters: dict[str, int], gauges: dict[str, int], server: JsonServer) -> str:
    """Prometheus text of these numbers, and of the server's requests and seconds of work."""
    series = [(name, "counter", [("", count)]) for name, count in counters.items()]
    series += [(name, "gauge", [("", count)]) for name, count in gauges.items()]
    series.append(("sojourn_extender_requests_total", "counter",
                   [(f'{{verb="{verb}",outcome="{outcome}"}}', count)
                    for (verb, outcome), count in sorted(server.counts.copy().items())]))
    lines = []
    for name, kind, samples in series:
        lines += [f"# TYPE {name} {kind}", *(f"{name}{labels} {count}" for labels, count in samples)]
    lines.append("# TYPE sojourn_extender_work_seconds_total counter")
    lines += [f'sojourn_extender_work_seconds_total{{verb="{verb}"}} {seconds:.6f}'
              for verb, seconds in sorted(server.seconds.copy().items())]
    return "\n".join(lines) + "\n"


def _parser(prog: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog, description="A Kubernetes scheduler extender over a bundle.")
    parser.add_argument("bundle", type=Path, help="bundle folder")
    parser.add_argument("--host", default="127.0.0.1", help="address to bind to (default: loopback only)")
    parser.add_argument("--port", type=int, default=8899, help="port, 0 for any free one (default: %(default)s)")
    parser.add_argument("--columns", type=Path, help="JSON file: request column -> where it comes from in a pod")
    parser.add_argument("--epoch-s", type=int, metavar="UNIX_S",
                        help="unix time at the bundle clock's 0 (default: the least that keeps its hours and weekdays)")
    parser.add_argument("--drain-annotation", default=DEFAULT_ANNOTATION, metavar="KEY",
                        help="nodes' annotation with the time by which they are to be empty (default: %(default)s)")
    parser.add_argument("--drain-quantile", type=float, default=0.9, metavar="Q",
                        help="how sure it must be that a pod has ended by then (default: %(default)s)")
    parser.add_argument("--pods-max", type=int, default=100_000, help="pods to keep track of (default: %(default)s)")
    parser.add_argument("--body-mib", type=int, default=16, help="largest request body (default: %(default)s)")
    parser.add_argument("--connections-max", type=int, default=32, help="connections at once (default: %(default)s)")
    return parser


def main(arguments: Sequence[str] | None = None, prog: str | None = "python -m sojourn.serving.extender") -> int:
    """Serve until SIGTERM or Ctrl-C; 0, or 2 with one line on standard error where it cannot begin."""
    options = _parser(prog).parse_args(arguments)
    try:
        bundle = load_bundle(options.bundle)
        sources = None if options.columns is None else json.loads(options.columns.read_bytes())
        limits = Limits(body_bytes=options.body_mib << 20, n_connections=options.connections_max)
        server = bind(bundle, options.host, options.port, Settings(
            sources, options.epoch_s, options.drain_annotation, options.drain_quantile, options.pods_max, limits))
    except (ValueError, OSError, OverflowError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    is_over = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: is_over.set())
    thread = threading.Thread(target=server.serve_forever, name="extender")
    thread.start()
    print(f"extender on http://{options.host}:{server.server_port}, bundle {bundle.version}; SIGTERM ends it",
          flush=True)
    is_over.wait()
    server.stop()
    thread.join()
    return 0


if __name__ == "__main__":
    sys.exit(main())
