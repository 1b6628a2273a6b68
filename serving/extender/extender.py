"""A Kubernetes scheduler extender: scores nodes by how much longer a pod would keep them in use.

    python -m sojourn.serving.extender BUNDLE [--host 127.0.0.1] [--port 8899] [--columns FILE] [--epoch-s N]
        [--log-to FOLDER] [--shadow BUNDLE] [--dry-run]

Answers `filter` and `prioritize` of `k8s.io/kube-scheduler/extender/v1`; learns placements and ends
from `/placed`, `/ended` and `/running`, and deadlines of nodes from `/nodes`. See docs/extender.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol

from sojourn.serving.extender.calls import REPORTS, ExtenderCalls
from sojourn.serving.extender.choices import Choices
from sojourn.serving.extender.nodes import DEFAULT_ANNOTATION, Drains, Nodes, PodRequests, read_sources
from sojourn.serving.http import (
    Beside,
    JsonServer,
    Limits,
    Turns,
    add_options,
    epoch_of,
    limits_of,
    loaded,
    probes,
    request_metrics,
    run,
)
from sojourn.serving.inputs import clock_zero_s
from sojourn.serving.predictor import Predictor
from sojourn.serving.prometheus import CONTENT_TYPE, Metric, exposition, predictor_metrics


@dataclass(frozen=True, slots=True)
class Settings:
    """sources: request column -> its source in a pod (default: DEFAULT_SOURCES). epoch_s: unix time
    at the bundle clock's 0 (default: `clock_zero_s`). host_names: see JsonServer. choices_to: folder for
    the lines of a dry run (default: none); is_named: they have pods' names. The rest: see ExtenderCalls,
    Drains, Nodes and Limits."""

    sources: Any = None
    epoch_s: int | None = None
    drain_annotation: str = DEFAULT_ANNOTATION
    drain_quantile: float = 0.9
    n_pods_max: int = 100_000
    limits: Limits = field(default_factory=Limits)
    host_names: tuple[str, ...] = ()
    choices_to: Path | None = None
    is_named: bool = True


class Feed(Beside, Protocol):
    """Reports pods and nodes from within the process; then `/placed`, `/ended`, `/running` and `/nodes` are not served.

    Its methods are called in this order, `missing` and `metrics` at any time from `attach` on.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Add its own options."""

    def configure(self, options: argparse.Namespace) -> None:
        """Take its options; ValueError if they are wrong."""

    def attach(self, calls: ExtenderCalls, drains: Drains, turns: Turns, sources: Mapping[str, str] | None) -> None:
        """Report to these, in `turns`; sources: as in Settings. ValueError for a source that it does not report."""

    def missing(self) -> str:
        """Why the extender's answers would mean nothing yet, or no more; empty if they do."""
        ...

    def metrics(self) -> list[Metric]:
        """Its own metrics."""
        ...


def bind(predictor: Predictor, host: str, port: int, settings: Settings | None = None,
         clock: Callable[[], float] = time.time, feed: Feed | None = None) -> JsonServer:
    """A server for a predictor, bound (port 0: any free one) but not yet serving.

    The predictor may be reloaded meanwhile: pods keep their curves and the history continues.
    clock: unix seconds now. feed: attached, but not started. ValueError for a wrong setting, OSError
    for an address that cannot be bound to.
    """
    options = Settings() if settings is None else settings
    epoch_s = clock_zero_s(predictor.encoder.phase_s) if options.epoch_s is None else options.epoch_s
    nodes = Nodes(predictor, PodRequests(predictor, options.sources), epoch_s=epoch_s, n_pods_max=options.n_pods_max)
    drains = Drains(options.drain_annotation)
    turns = Turns()
    choices = None if options.choices_to is None else Choices(
        nodes, options.choices_to, is_named=options.is_named, n_pods_max=2 * options.n_pods_max)
    calls = ExtenderCalls(nodes, drains, epoch_s=epoch_s, drain_quantile=options.drain_quantile, clock=clock,
                          pause=turns.pass_on, choices=choices)
    posts = calls.posts
    if feed is not None:
        feed.attach(calls, drains, turns, options.sources)
        posts = {path: posts[path] for path in ("/filter", "/prioritize")}

    def missing() -> str:
        if server.is_stopping:
            return "the server is stopping"
        if feed is not None:
            return feed.missing()
        return "" if calls.has_pods else "no list of all pods has been received yet (POST /running)"

    def metrics() -> tuple[int, str, str]:
        extras = extender_metrics(calls, nodes, drains, server, is_ready=not missing())
        extras += [] if feed is None else feed.metrics()
        return HTTPStatus.OK, CONTENT_TYPE, exposition([*predictor_metrics(predictor), *extras])

    server = JsonServer(host, port, posts, {**probes(predictor, missing), "/metrics": metrics},
                        options.limits, options.host_names, turns=turns, reports=REPORTS & posts.keys())
    return server


def extender_metrics(calls: ExtenderCalls, nodes: Nodes, drains: Drains, server: JsonServer, *,
                     is_ready: bool) -> list[Metric]:
    """The metrics of the extender, beside those of its predictor."""
    return [
        Metric.of("sojourn_extender_nodes_refused_total", "counter",
                  "Nodes that filter refused, since the pod would outlive their drain.", calls.n_nodes_refused),
        Metric.of("sojourn_extender_unreadable_deadlines_total", "counter",
                  "Drain deadlines in node objects that could not be read and passed as none.", drains.n_unreadable),
        Metric.of("sojourn_extender_pods", "gauge", "Pods that run, as far as was reported.", nodes.n_pods),
        Metric.of("sojourn_extender_nodes_in_use", "gauge", "Nodes with at least one of them.", len(nodes)),
        Metric.of("sojourn_extender_ready", "gauge", "1 once a list of all pods was taken in.", int(is_ready)),
        *request_metrics("sojourn_extender_requests_total", server),
        *([] if calls.choices is None else _choice_metrics(calls.choices)),
    ]


def _choice_metrics(choices: Choices) -> list[Metric]:
    pods = [({"outcome": name}, n) for name, n in (
        ("alike", choices.n_alike), ("other", choices.n_other), ("skipped", choices.n_skipped))]
    seconds = [({"choice": name}, each_s) for name, each_s in (
        ("chosen", choices.chosen_s), ("would", choices.would_s))]
    return [
        Metric("sojourn_dry_run_pods_total", "counter",
               "Pods by whether the dry run would have placed them alike, on another node, or could not compare.",
               tuple(pods)),
        Metric("sojourn_dry_run_extension_seconds_total", "counter",
               "Seconds by which pods keep nodes in use longer, on the chosen nodes and on those of the dry run.",
               tuple(seconds)),
        Metric.of("sojourn_dry_run_errors_total", "counter", "Lines of the dry run that could not be written.",
                  choices.n_errors),
    ]


def _parser(prog: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog, description="A Kubernetes scheduler extender over a bundle.")
    add_options(parser, 8899, 16)
    parser.add_argument("--columns", type=Path,
                        help="JSON file: request column -> where it comes from in a pod (default: none)")
    parser.add_argument("--drain-annotation", default=DEFAULT_ANNOTATION, metavar="KEY",
                        help="nodes' annotation with the time by which they are to be empty (default: %(default)s)")
    parser.add_argument("--drain-quantile", type=float, default=0.9, metavar="Q",
                        help="probability with which a pod must have ended by then (default: %(default)s)")
    parser.add_argument("--pods-max", type=int, default=100_000, help="pods to keep track of (default: %(default)s)")
    parser.add_argument("--dry-run", action="store_true",
                        help="leave the scheduler's placement as it is, and write what would have been chosen into "
                             "--log-to's choices.jsonl")
    return parser


def main(arguments: Sequence[str] | None = None, prog: str | None = "python -m sojourn.serving.extender",
         feed: Feed | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C; 0, or 2 with one line on standard error if it cannot start."""
    parser = _parser(prog)
    if feed is not None:
        feed.add_options(parser)
    options = parser.parse_args(arguments)

    def opened() -> tuple[Predictor, JsonServer]:
        if options.dry_run and options.log_to is None:
            raise ValueError("--dry-run must be given with --log-to, got it alone")
        predictor = loaded(options)
        if feed is not None:
            feed.configure(options)
        return predictor, bind(predictor, options.host, options.port, Settings(
            read_sources(options.columns), epoch_of(predictor, options.epoch_s), options.drain_annotation,
            options.drain_quantile, options.pods_max, limits_of(options), tuple(options.host_names),
            options.log_to if options.dry_run else None, options.log_owner_key is None), feed=feed)

    return run("extender", options, opened, beside=feed)
