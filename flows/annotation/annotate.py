"""From a bundle and a trace to a line for each running request, in the consumer's form; a report.

Each line is text for a file; nothing here runs a program. docs/annotations.md has the sources.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from sojourn.features.trace import Trace
from sojourn.flows.annotation.bounds import (
    Bound,
    Replayed,
    coming_bounds,
    corrected_report,
    coverage_lines,
    coverage_report,
    limit_table,
    running_bounds,
    table_coverage,
)
from sojourn.serving import load_bundle

_N_NAMED, _N_SIGNS_MAX = 3, 80
"""A message shows so many names of a list, and so many characters of each."""
LIMITS = "slurm-limits"
"""The consumer that reads a table of coming jobs instead of lines of running ones: `limit_table`."""
KARPENTER = "karpenter.sh/do-not-disrupt"
CHRONOS = "scheduling.workload.io/expected-duration-seconds"
JOB_KINDS = frozenset({"CronJob", "Job"})
"""Controllers whose pods end by themselves; a pod of another kind is meant to stay."""
KAI = "kai.scheduler/expected-runtime"
_NAME = r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?"
_POD = re.compile(rf"({_NAME})/({_NAME})")
_JOB = re.compile(r"([1-9][0-9]{0,17}(?:_[0-9]{1,9})?)(?:/[0-9]+)?")
_PODS = "NAMESPACE/POD"


@dataclass(frozen=True, slots=True)
class Order:
    """consumer: a key of CONSUMERS. ids: requests to annotate, None = all.

    requests: coming requests by their place in the input, instead of the running ones; None = the
    running ones. at_most_s: no bound is longer, from the request's start; None = no cap.
    is_any_kind: protect pods of all controllers, not of jobs alone.
    """

    bundle: Path
    consumer: str
    level: float
    ids: frozenset[str] | None = None
    is_corrected: bool = False
    requests: Mapping[str, Mapping[str, Any]] | None = None
    at_most_s: int | None = None
    is_any_kind: bool = False

    def __post_init__(self) -> None:
        if self.consumer not in CONSUMERS:
            raise ValueError(f"--consumer must be one of {', '.join(CONSUMERS)}, got {self.consumer!r}")
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"quantile must be above 0 and below 1, got {self.level!r}")
        if self.is_any_kind and not CONSUMERS[self.consumer].is_protecting:
            names = ", ".join(name for name, each in CONSUMERS.items() if each.is_protecting)
            raise ValueError(f"--any-kind must be given with --consumer {names}, got {self.consumer!r}")


@dataclass(frozen=True, slots=True)
class Annotated:
    """refusal: why the lines must not be written, or "". n_bounds: lines that are bounds."""

    lines: tuple[str, ...]
    n_bounds: int
    messages: tuple[str, ...]
    refusal: str


def annotated(order: Order, trace: Trace) -> Annotated:
    """Bounds of the requests that run at the trace's horizon; their coverage on held-out requests.

    BundleError if the bundle cannot be loaded; ValueError if it and the trace do not fit.
    """
    replayed = Replayed.of(load_bundle(order.bundle), trace)
    if order.consumer == LIMITS:
        return _limits(order, replayed)
    report = (corrected_report if order.is_corrected else coverage_report)(replayed, order.level)
    bounds = (running_bounds(replayed, report.used, order.level) if order.requests is None
              else coming_bounds(replayed, order.requests, report.used, order.level))
    messages = [*_input_messages(replayed), *coverage_lines(report), *(f"warning   {fault}" for fault in report.faults)]
    if order.ids is not None:
        gone = sorted(order.ids - {each for bound in bounds for each in (bound.request_id, bound.name)})
        if gone:
            names = ", ".join(map(_shown, gone[:_N_NAMED]))
            messages.append(f"warning   {len(gone):,} of --only are not among them: {names}")
        bounds = [bound for bound in bounds if order.ids & {bound.request_id, bound.name}]
    consumer = CONSUMERS[order.consumer]
    bounds = _limited(order, consumer, replayed.trace, bounds, messages)
    lines = [consumer.line(bound) for bound in bounds]
    strange = [bound.name for bound, line in zip(bounds, lines, strict=True) if line is None]
    if strange:
        messages.append(f"warning   {len(strange):,} requests left out, since --consumer {order.consumer} needs names "
                        f"of {consumer.names}: {', '.join(repr(name)[:_N_SIGNS_MAX] for name in strange[:_N_NAMED])}")
    known = tuple(line for line in lines if line is not None)
    return Annotated((consumer.head, *known) if consumer.head else known, len(known), tuple(messages),
                     "" if report.is_enough else report.faults[0])


def _shown(name: str) -> str:
    return name[:_N_SIGNS_MAX] if name.isprintable() else repr(name)[:_N_SIGNS_MAX]


def _limited(order: Order, consumer: Consumer, trace: Trace, bounds: Sequence[Bound],
             messages: list[str]) -> list[Bound]:
    """The bounds that may be written, cut at the limit; `messages` gets one about those left out."""
    allowed = list(bounds)
    limit_s = order.at_most_s
    if consumer.is_protecting:
        if not order.is_any_kind:
            allowed = [bound for bound in bounds if bound.kind in JOB_KINDS]
            n_other = len(bounds) - len(allowed)
            if n_other:
                messages.append(f"left out  {n_other:,} pods of no Job: one that is meant to stay would "
                                "keep its node from disruption all the while (--any-kind takes them)")
        recorded_s = int(trace.horizon_s) - int(trace.requests["arrival_s"].min())
        limit_s = recorded_s if limit_s is None else min(limit_s, recorded_s)
    if limit_s is None:
        return allowed
    cut = [bound.at_most(limit_s) for bound in allowed]
    n_cut = sum(bound is not None and bound.total_s < whole.total_s for bound, whole in zip(cut, allowed, strict=True))
    why = "--at-most" if limit_s == order.at_most_s else "the trace shows no more"
    if n_cut:
        messages.append(f"cut       {n_cut:,} bounds at {go_duration(limit_s)} ({why})")
    if None in cut:
        messages.append(f"left out  {cut.count(None):,} that have run for {go_duration(limit_s)} already ({why})")
    return [bound for bound in cut if bound is not None]


def _limits(order: Order, replayed: Replayed) -> Annotated:
    if order.ids is not None or order.is_corrected or order.requests is not None or order.at_most_s is not None:
        raise ValueError(f"--only, --requests, --corrected and --at-most must be left out with --consumer {LIMITS}, "
                         "got one of them")
    if not replayed.trace.is_dated:
        raise ValueError(f"trace must have dates with --consumer {LIMITS}, so that the table's age is known, got none")
    coverage = table_coverage(replayed, order.level)
    table, report = limit_table(replayed, order.level), coverage.report
    messages = [*_input_messages(replayed), f"limits    {len(table.minutes):,} groups by {', '.join(table.columns)}; "
                f"written anew every {coverage.renewed_s / 86_400:.0f} days, tables had a limit for "
                f"{100 * coverage.has_limit:.1f} % of the held-out requests", *coverage_lines(report),
                *(f"warning   {fault}" for fault in report.faults)]
    return Annotated(tuple(table.lines(replayed.trace.horizon_s)), len(table.minutes), tuple(messages),
                     "" if report.is_enough else report.faults[0])


def _input_messages(replayed: Replayed) -> list[str]:
    """Messages: what is assumed of bundle and trace, and what they lack."""
    n_unknown = int((~replayed.trace.is_start_known()).sum())
    messages = [f"bundle    version {replayed.bundle.version}; held out: requests asked for from second "
                f"{replayed.held_out_s:,} on, {'after the training window' if replayed.has_own_history else ''}"
                f"{'' if replayed.has_own_history else 'after the end of its owner history, which goes on'}"]
    if not replayed.is_clock_known:
        messages.append("check     bundle or trace has no dates: their clocks are taken as one")
    if replayed.missing:
        messages.append(f"warning   the bundle reads columns that the trace lacks, taken as not known: "
                        f"{', '.join(replayed.missing)}")
    if n_unknown:
        messages.append(f"check     {n_unknown:,} requests whose start is not known are left out")
    return messages


@dataclass(frozen=True, slots=True)
class Consumer:
    """A program that reads bounds. line: for one bound; None if its name has another form.

    text: the program's use of bounds, for help and docs. names: the form of names.
    head: the file's first line. is_protecting: it keeps a node from disruption until the bound, so
    that it gets pods of jobs alone, and no bound that is longer than the trace.
    """

    line: Callable[[Bound], str | None]
    text: str
    names: str
    head: str = "#!/bin/sh"
    is_protecting: bool = False


def go_duration(seconds: int) -> str:
    """Seconds in the form of Go's time.ParseDuration.

    >>> go_duration(5_430), go_duration(59), go_duration(86_400)
    ('1h30m30s', '59s', '24h')
    """
    hours, rest = divmod(seconds, 3_600)
    parts = ((hours, "h"), (rest // 60, "m"), (rest % 60, "s"))
    return "".join(f"{value}{unit}" for value, unit in parts if value) or "0s"


def _karpenter(bound: Bound) -> str | None:
    return _of_pod(bound, f"{KARPENTER}={go_duration(bound.total_s)}")


def _chronos(bound: Bound) -> str | None:
    return _of_pod(bound, f"{CHRONOS}={bound.total_s}")


def _kai(bound: Bound) -> str | None:
    pod = _POD.fullmatch(bound.name)
    if pod is None:
        return None
    get = f"kubectl get pod {pod[2]} -n {pod[1]} -o jsonpath='{{.metadata.annotations.pod-group-name}}'"
    return f'kubectl annotate podgroup "$({get})" -n {pod[1]} {KAI}={go_duration(bound.total_s)}'


def _of_pod(bound: Bound, annotation: str) -> str | None:
    pod = _POD.fullmatch(bound.name)
    return None if pod is None else f"kubectl annotate pod {pod[2]} -n {pod[1]} {annotation}"


def _slurm(bound: Bound) -> str | None:
    job = _JOB.fullmatch(bound.name)
    if job is None:
        return None
    when = "" if bound.end_unix_s is None else f" by {datetime.fromtimestamp(bound.end_unix_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
    comment = f"sojourn: {100 * bound.level:g} % of such jobs end{when} ({go_duration(bound.total_s)} from their start)"
    return f"scontrol update JobId={job[1]} AdminComment={shlex.quote(comment)}"


def _json(bound: Bound) -> str | None:
    return json.dumps(asdict(bound) | {"remaining_s": bound.remaining_s}, sort_keys=True)


CONSUMERS: Mapping[str, Consumer] = MappingProxyType({
    "chronos": Consumer(_chronos, "the pod's expected seconds from its start, for the chronos scheduler", _PODS),
    "json": Consumer(_json, "one JSON object a line, for anything else", "any", ""),
    "kai": Consumer(_kai, "the pod group's expected runtime, for a plugin of KAI that is not released", _PODS),
    "karpenter": Consumer(_karpenter, "how long from its start the node of a Job's pod is not disrupted", _PODS,
                          is_protecting=True),
    "slurm": Consumer(_slurm, "a comment on a running job, for its administrator; limits stay", "Slurm's job ids"),
    LIMITS: Consumer(lambda bound: None, "a table for examples/slurm/job_submit.lua: advice at submission", "", ""),
})
"""Name in commands -> consumer."""
