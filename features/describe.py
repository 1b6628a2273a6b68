"""What a trace holds, in a few aligned rows of text and one picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from sojourn.features.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95, 0.99)
LONG_S = 3600
"""The bound between short and long lifetimes of LAVA, section 2.1."""
_MAX_BARS = 1500
_BLUE, _ORANGE, _GREY = "#2a6f97", "#d17a22", "#6b7280"


@dataclass(frozen=True, slots=True)
class TraceSummary:
    """Counts, lifetimes and demand of one trace.

    A lifetime is the time observed: a censored request counts with its time up to the horizon, a request of
    unknown start with its time from 0. So quantiles are lower bounds where much is censored.

    lifetime_quantiles_s: level -> seconds. long_share, long_core_share: requests that lived 1 h or more,
    as a share of requests and of core-seconds. owners: owner column -> number of keys. peak, mean: resource
    -> the largest and the time-weighted mean amount in use between 0 and the horizon.
    """

    source: str
    n_requests: int
    n_censored: int
    n_running_at_0: int
    n_unknown_start: int
    n_hosts: int
    horizon_s: int
    lifetime_quantiles_s: Mapping[float, float]
    long_share: float
    long_core_share: float
    owners: Mapping[str, int]
    peak: Mapping[str, float]
    mean: Mapping[str, float]

    def lines(self) -> list[str]:
        """Text rows: labels padded to one width, values after them."""
        n = self.n_requests
        rows = [
            ("source", self.source),
            ("requests", f"{n:,}"),
            ("span", f"{self.horizon_s / 86_400:.1f} days"),
            ("running at the horizon", _share_text(self.n_censored, n)),
            ("running at 0", f"{_share_text(self.n_running_at_0, n)}, "
                             f"{self.n_unknown_start:,} of unknown start"),
            ("lifetime, observed", "  ".join(f"q{100 * level:.0f} {duration_text(value)}" for level, value
                                             in self.lifetime_quantiles_s.items())),
            ("lived 1 h or more", f"{100 * self.long_share:.1f} % of requests, "
                                  f"{100 * self.long_core_share:.1f} % of core-hours"),
        ]
        rows += [(f"owner {name}", f"{count:,} keys") for name, count in self.owners.items()]
        rows += [(f"demand {name}", f"mean {self.mean[name]:,.0f}, peak {value:,.0f}")
                 for name, value in self.peak.items()]
        if self.n_hosts:
            rows.append(("hosts", f"{self.n_hosts:,}"))
        width = max(len(label) for label, _ in rows)
        return [f"{label:<{width}}  {value}" for label, value in rows]

    def text(self) -> str:
        """The rows of `lines` as one string."""
        return "\n".join(self.lines())


def describe(trace: Trace) -> TraceSummary:
    """The summary of `trace`, which must hold at least one request.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [-60, 600], "departure_s": [30, None],
    ...                       "cpu_cores": [2.0, 4.0], "mem_gib": [8.0, 16.0]})
    >>> print(describe(Trace(table, horizon_s=7800, meta={"source": "by hand"})).text())
    source                  by hand
    requests                2
    span                    0.1 days
    running at the horizon  1 (50.0 %)
    running at 0            1 (50.0 %), 0 of unknown start
    lifetime, observed      q5 7.4 min  q25 31.1 min  q50 1.0 h  q75 1.5 h  q95 1.9 h  q99 2.0 h
    lived 1 h or more       50.0 % of requests, 99.4 % of core-hours
    demand cpu_cores        mean 4, peak 4
    demand mem_gib          mean 15, peak 16
    """
    if not len(trace):
        raise ValueError("trace must hold at least one request, got none")
    lifetime_s = trace.lifetime_s()
    core_s = trace.requests["cpu_cores"].to_numpy() * lifetime_s
    is_long = lifetime_s >= LONG_S
    is_unknown = ~trace.is_start_known()
    inside_s = trace.end_s() - np.maximum(trace.start_s(), 0)
    amounts = {name: trace.requests[name].to_numpy() for name in trace.resources}
    return TraceSummary(
        source=str(trace.meta.get("source", "unknown")),
        n_requests=len(trace),
        n_censored=int((~trace.is_event()).sum()),
        n_running_at_0=int(((trace.start_s() < 0) | is_unknown).sum()),
        n_unknown_start=int(is_unknown.sum()),
        n_hosts=0 if trace.hosts is None else len(trace.hosts),
        horizon_s=trace.horizon_s,
        lifetime_quantiles_s=dict(zip(QUANTILES, np.quantile(lifetime_s, QUANTILES).tolist(), strict=True)),
        long_share=float(is_long.mean()),
        long_core_share=float(core_s[is_long].sum() / max(core_s.sum(), 1.0)),
        owners={name: int(trace.requests[name].nunique()) for name in trace.roles.owners},
        peak={name: peak_demand(trace, name) for name in amounts},
        mean={name: float((amount * inside_s).sum() / trace.horizon_s) for name, amount in amounts.items()},
    )


def peak_demand(trace: Trace, resource: str) -> float:
    """The largest amount of `resource` in use at one time between 0 and the horizon.

    At one second departures come before arrivals, as the simulator replays them.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"request_id": [1, 2], "arrival_s": [0, 30], "departure_s": [30, 60],
    ...                       "cpu_cores": [2.0, 4.0], "mem_gib": [8.0, 16.0]})
    >>> peak_demand(Trace(table, horizon_s=100), "cpu_cores")
    4.0
    """
    amount = trace.requests[resource].to_numpy()
    time_s = np.concatenate([np.maximum(trace.start_s(), 0), trace.end_s()])
    change = np.concatenate([amount, -amount])
    order = np.lexsort((change > 0, time_s))
    return float(change[order].cumsum().max(initial=0.0))


def lifetime_figure(trace: Trace) -> Figure:
    """A matplotlib figure: who lives how long and what they hold, and arrivals over time.

    Left, over a log time axis: the share of requests that were observed to live at least so long, and the
    share of all core-hours that these hold. Right: arrivals from 0 on, per hour (per several hours where
    the trace is longer than 62 days). Censored requests count as in `TraceSummary`.

    >>> from sojourn.features.synthetic import synthesize
    >>> [axes.get_xlabel() for axes in lifetime_figure(synthesize(500)).axes]
    ['lifetime', 'days since the start']
    """
    if not len(trace):
        raise ValueError("trace must hold at least one request, got none")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    _draw_lifetimes(left, trace)
    _draw_arrivals(right, trace)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
    return figure


def duration_text(seconds: float) -> str:
    """`seconds` in the largest unit that leaves at least 1, such as 1.5 h.

    >>> duration_text(5400), duration_text(40)
    ('1.5 h', '40 s')
    """
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


def _share_text(count: int, n: int) -> str:
    return f"{count:,} ({100 * count / n:.1f} %)"


def _draw_lifetimes(axes: Axes, trace: Trace) -> None:
    lifetime_s = np.maximum(trace.lifetime_s(), 1)
    core_s = trace.requests["cpu_cores"].to_numpy() * lifetime_s
    order = np.argsort(lifetime_s)
    # At each lifetime, what is at or above it: the requests and core-seconds from there to the end.
    at_s, first = np.unique(lifetime_s[order], return_index=True)
    held = core_s[order][::-1].cumsum()[::-1]
    alive = 100 * (1 - first / len(order))
    axes.step(at_s, alive, where="pre", color=_BLUE, label="requests")
    share = 100 * held[first] / max(held[0], 1.0)
    axes.step(at_s, share, where="pre", color=_ORANGE, label="their core-hours")
    axes.axvline(LONG_S, color=_GREY, linewidth=1, linestyle=":")
    axes.set_xscale("log")
    ticks = [(1, "1 s"), (60, "1 min"), (3600, "1 h"), (86_400, "1 d"), (2_592_000, "30 d")]
    axes.set_xticks([time_s for time_s, _ in ticks], [label for _, label in ticks])
    axes.set_xticks([], minor=True)
    axes.set_xlim(1, max(int(at_s[-1]) * 1.5, 10))
    axes.set_ylim(0, 102)
    axes.set_xlabel("lifetime")
    axes.set_ylabel("share that lives at least so long, %")
    axes.set_title("Lifetimes", loc="left")
    axes.legend(frameon=False, loc="lower left")


def _draw_arrivals(axes: Axes, trace: Trace) -> None:
    known_s = trace.start_s()[trace.is_start_known() & (trace.start_s() >= 0)]
    n_hours = max(1, int(np.ceil(trace.horizon_s / 3600 / _MAX_BARS)))
    edge_s = np.arange(0, trace.horizon_s + n_hours * 3600, n_hours * 3600)
    counts, _ = np.histogram(known_s, edge_s)
    axes.stairs(counts, edge_s / 86_400, color=_BLUE, fill=True)
    axes.set_xlim(0, trace.horizon_s / 86_400)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("days since the start")
    axes.set_ylabel("arrivals per hour" if n_hours == 1 else f"arrivals per {n_hours} hours")
    axes.set_title("Arrivals", loc="left")
