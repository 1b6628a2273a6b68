"""From a bundle and a trace to the lines that a consumer reads, and what is said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sojourn.features.trace import Trace
from sojourn.flows.annotation.bounds import Bound, coming_bounds, running_bounds
from sojourn.flows.annotation.consumers import CONSUMERS, JOB_KINDS, LIMITS, Consumer, go_duration
from sojourn.flows.annotation.coverage_text import coverage_lines
from sojourn.flows.annotation.held_out import corrected_report, coverage_report
from sojourn.flows.annotation.limit_table import limit_table, table_coverage
from sojourn.flows.annotation.replayed import Replayed
from sojourn.serving import load_bundle

_N_NAMED, _N_SIGNS_MAX = 3, 80
"""Of a list of names: how many, and how much of each."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is asked for. consumer: a key of CONSUMERS. ids: of the requests to annotate, None = all.

    requests: that have not started, by where they stand, in place of those that run; None = those that run.
    at_most_s: no bound is longer, from the request's start; None = no such cap. is_any_kind: pods of all controllers
    are protected, and not those of jobs alone.
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
            raise ValueError(f"--for must be one of {', '.join(CONSUMERS)}, got {self.consumer!r}")
        if not 0.0 < self.level < 1.0:
            raise ValueError(f"quantile must be above 0 and below 1, got {self.level!r}")
        if self.is_any_kind and not CONSUMERS[self.consumer].is_protecting:
            names = ", ".join(name for name, each in CONSUMERS.items() if each.is_protecting)
            raise ValueError(f"--any-kind must be given with --for {names}, got {self.consumer!r}")


@dataclass(frozen=True, slots=True)
class Annotated:
    """The file's lines, how many of them are bounds, what a person is told, and why not to write ("" = none)."""

    lines: tuple[str, ...]
    n_bounds: int
    said: tuple[str, ...]
    refusal: str


def annotated(order: Order, trace: Trace) -> Annotated:
    """The bounds of what runs at the trace's horizon, and their coverage on what the bundle has not seen.

    Raises BundleError where the bundle cannot be loaded and ValueError where it and the trace do not fit.
    """
    replayed = Replayed.of(load_bundle(order.bundle), trace)
    if order.consumer == LIMITS:
        return _limits(order, replayed)
    report = (corrected_report if order.is_corrected else coverage_report)(replayed, order.level)
    bounds = (running_bounds(replayed, report.used, order.level) if order.requests is None
              else coming_bounds(replayed, order.requests, report.used, order.level))
    said = [*_told(replayed), *coverage_lines(report), *(f"warning   {fault}" for fault in report.faults)]
    if order.ids is not None:
        gone = sorted(order.ids - {each for bound in bounds for each in (bound.request_id, bound.name)})
        if gone:
            names = ", ".join(map(_shown, gone[:_N_NAMED]))
            said.append(f"warning   {len(gone):,} of --only are not among them: {names}")
        bounds = [bound for bound in bounds if order.ids & {bound.request_id, bound.name}]
    consumer = CONSUMERS[order.consumer]
    bounds = _limited(order, consumer, replayed.trace, bounds, said)
    lines = [consumer.line(bound) for bound in bounds]
    strange = [bound.name for bound, line in zip(bounds, lines, strict=True) if line is None]
    if strange:
        said.append(f"warning   {len(strange):,} requests left out, since --for {order.consumer} needs names of "
                    f"{consumer.names}: {', '.join(repr(name)[:_N_SIGNS_MAX] for name in strange[:_N_NAMED])}")
    kept = tuple(line for line in lines if line is not None)
    return Annotated((consumer.head, *kept) if consumer.head else kept, len(kept), tuple(said),
                     "" if report.is_enough else report.faults[0])


def _shown(name: str) -> str:
    return name[:_N_SIGNS_MAX] if name.isprintable() else repr(name)[:_N_SIGNS_MAX]


def _limited(order: Order, consumer: Consumer, trace: Trace, bounds: Sequence[Bound], said: list[str]) -> list[Bound]:
    """The bounds that may be written, cut at the longest time that they may name; what is left out is told."""
    kept = list(bounds)
    limit_s = order.at_most_s
    if consumer.is_protecting:
        if not order.is_any_kind:
            kept = [bound for bound in bounds if bound.kind in JOB_KINDS]
            n_other = len(bounds) - len(kept)
            if n_other:
                said.append(f"left out  {n_other:,} pods of no Job: one that is meant to stay would "
                            "keep its node from disruption all the while (--any-kind takes them)")
        recorded_s = int(trace.horizon_s) - int(trace.requests["arrival_s"].min())
        limit_s = recorded_s if limit_s is None else min(limit_s, recorded_s)
    if limit_s is None:
        return kept
    cut = [bound.at_most(limit_s) for bound in kept]
    n_cut = sum(bound is not None and bound.total_s < whole.total_s for bound, whole in zip(cut, kept, strict=True))
    why = "--at-most" if limit_s == order.at_most_s else "the trace shows no more"
    if n_cut:
        said.append(f"cut       {n_cut:,} bounds at {go_duration(limit_s)} ({why})")
    if None in cut:
        said.append(f"left out  {cut.count(None):,} that have run for {go_duration(limit_s)} already ({why})")
    return [bound for bound in cut if bound is not None]


def _limits(order: Order, replayed: Replayed) -> Annotated:
    """The table of limits for jobs to come."""
    if order.ids is not None or order.is_corrected or order.requests is not None or order.at_most_s is not None:
        raise ValueError(f"--only, --requests, --corrected and --at-most must be left out with --for {LIMITS}, got one "
                         "of them")
    if not replayed.trace.is_dated:
        raise ValueError(f"trace must have dates for --for {LIMITS}, so that the table's age is known, got none")
    judged = table_coverage(replayed, order.level)
    table, report = limit_table(replayed, order.level), judged.report
    said = [*_told(replayed), f"limits    {len(table.minutes):,} groups by {', '.join(table.columns)}; written anew "
            f"every {judged.renewed_s / 86_400:.0f} days, tables had a limit for {100 * judged.has_limit:.1f} % of the "
            "held-out requests", *coverage_lines(report), *(f"warning   {fault}" for fault in report.faults)]
    return Annotated(tuple(table.lines(replayed.trace.horizon_s)), len(table.minutes), tuple(said),
                     "" if report.is_enough else report.faults[0])


def _told(replayed: Replayed) -> list[str]:
    """What was taken for granted of bundle and trace."""
    n_unknown = int((~replayed.trace.is_start_known()).sum())
    said = [f"bundle    version {replayed.bundle.version}; held out: requests asked for from second "
            f"{replayed.held_out_s:,} on, {'after the training window' if replayed.has_own_history else ''}"
            f"{'' if replayed.has_own_history else 'after the end of its owner history, which goes on'}"]
    if not replayed.is_clock_known:
        said.append("check     bundle or trace has no dates: their clocks are taken as one")
    if replayed.missing:
        said.append(f"warning   the bundle reads columns that the trace lacks, taken as not known: "
                    f"{', '.join(replayed.missing)}")
    if n_unknown:
        said.append(f"check     {n_unknown:,} requests whose start is not known are left out")
    return said
