"""The page's figures as plotly's JSON: gains, empty hosts, their distribution, sweeps, host maps.

They are plain mappings: the page's script sets their theme and size. Text from data is escaped, as
plotly reads HTML tags in it; `meta` has a line's name unescaped, for the legend beside the figure.
A sweep is the gain against one setting that the comparison varies: the load, the oracle's recall,
its noise.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from sojourn.simulator.experiments import BASELINE, MORE_REJECTED, is_rejecting_more, knows_the_future
from sojourn.simulator.measures import HostMap, interval_text, signed_text
from sojourn.simulator.page.comparison_data import ComparisonData

Figure = dict[str, Any]
"""`data` and `layout` of plotly's JSON schema."""

N_LINES = 6
"""Lines shown at first; a click shows the others."""
MAX_HOSTS, MAX_MOMENTS = 300, 300
"""The most rows and columns of a map; of more, evenly spaced ones are drawn."""
CUT = "◀ "
"""Prefix of the name of a bar that the axis cuts off."""
MORE = "⚠ "
"""Prefix of the name of a bar that rejects more than best-fit."""
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")
_UNITS = (("days", 86_400), ("hours", 3_600), ("minutes", 60), ("seconds", 1))
_BAR_PX, _FRAME_PX, _MAX_NAME = 32, 110, 40


def gain_figure(rows: pd.DataFrame, colour_of: Mapping[str, str]) -> Figure:
    """Bars of the gain over best-fit with intervals, and the bound as a line: deployable ones on
    top, then, pale, those that know the future, each the best first.

    rows: of a summary, one workload and load. colour_of: by policy. Bars are cut at the axis' left
    end and marked; those that reject more than best-fit are marked, too.
    """
    bars = rows.assign(is_more=is_rejecting_more(rows), is_known=rows["predictor"].map(knows_the_future))
    bars = bars[(bars["policy"] != BASELINE) & bars["gain_pp"].notna()]
    bars = bars.sort_values(["is_known", "gain_pp"], ascending=[False, True], kind="stable")
    gain, low, high = (bars[name].to_numpy(float) for name in ("gain_pp", "gain_low_pp", "gain_high_pp"))
    bound_pp = bound_gain_pp(rows)
    largest = float(np.nanmax([bound_pp, 0.1, *gain, *high]))
    cut = -1.25 * largest  # longer bars are cut; the intervals of all others lie within the axis
    is_cut = gain < cut
    left = float(np.nanmin([-0.05 * largest, *gain[~is_cut], *low[~is_cut]])) * 1.05 - 0.02 * largest
    left = min(left, cut) if is_cut.any() else left
    ticks = [f"{CUT if value < cut else ''}{MORE if more else ''}{_escaped(_short(label))} <b>{signed_text(value)}</b>"
             for label, value, more in zip(bars["label"], gain, bars["is_more"], strict=True)]
    bar: dict[str, Any] = {
        "type": "bar", "orientation": "h", "x": _rounded(gain), "y": list(range(len(bars))),
        "marker": {"color": [colour_of[policy] for policy in bars["policy"]],
                   "opacity": [0.45 if known else 1.0 for known in bars["is_known"]]},
        "hovertext": [f"{_escaped(label)}: {gain_text(*ends)}{f'; {MORE_REJECTED}' if more else ''}"
                      for label, more, *ends in zip(bars["label"], bars["is_more"], gain, low, high, strict=True)],
        "hoverinfo": "text",
    }  # fmt: skip
    if np.isfinite(low).any():
        bar["error_x"] = {"type": "data", "symmetric": False, "array": _rounded(high - gain),
                          "arrayminus": _rounded(gain - low), "color": COLOURS[-1], "thickness": 1.5, "width": 4}
    layout: dict[str, Any] = {
        "height": _FRAME_PX + _BAR_PX * len(bars),
        "xaxis": {"title": {"text": "pp over best-fit"}, "range": [left, largest * 1.08],
                  "zeroline": True},
        "yaxis": {"tickvals": bar["y"], "ticktext": ticks, "range": [-0.6, len(bars) - 0.4],
                  "showgrid": False},
    }
    if math.isfinite(bound_pp):
        layout["shapes"] = [_vertical(bound_pp)]
        layout["annotations"] = [_note(f"bound {signed_text(bound_pp)}", bound_pp, "right")]
    return {"data": [bar], "layout": layout}


def bound_gain_pp(rows: pd.DataFrame) -> float:
    """The bound's mean distance above best-fit, percentage points; NaN if it is not known."""
    baseline = rows[rows["policy"] == BASELINE]
    if "bound_empty_hosts_pct" not in rows or len(baseline) == 0:
        return math.nan
    return float(baseline["bound_empty_hosts_pct"].iloc[0] - baseline["empty_hosts_pct"].iloc[0])


def gain_text(gain_pp: float, low_pp: float, high_pp: float) -> str:
    """A gain with its interval, if it has one.

    >>> gain_text(1.5, 1.0, 2.0), gain_text(1.5, float("nan"), float("nan"))
    ('+1.50 pp (95 % interval +1.00 to +2.00)', '+1.50 pp')
    """
    interval = f" (95 % interval {interval_text(low_pp, high_pp)})" if math.isfinite(low_pp) else ""
    return f"{signed_text(gain_pp)} pp{interval}"


def empty_hosts_figure(data: ComparisonData, colour_of: Mapping[str, str]) -> Figure:
    """A line per label, some of them shown, the bound dotted, the warm-up shaded."""
    first = next(iter(data.series.values()))
    unit, unit_s = time_unit(int(first["time_s"].iloc[-1]))
    lines = [_bound(first["time_s"] / unit_s, first["bound_empty_hosts_pct"]),
             *_lines(data, colour_of, lambda time_s, pct: (time_s / unit_s, pct))]
    layout = {
        "height": 420, "hovermode": "x unified",
        "xaxis": {"title": {"text": f"time since the start ({unit})"}},
        "yaxis": {"title": {"text": "empty hosts (%)"}, "rangemode": "tozero"},
        **_warmup(data.warmup_s / unit_s),
    }  # fmt: skip
    return {"data": lines, "layout": layout}


def violations_figure(data: ComparisonData, colour_of: Mapping[str, str], name: str) -> Figure:
    """A line per label as in `empty_hosts_figure`, over time: `violated_hosts_pct` or `excess_pct` of the series."""
    unit, unit_s = time_unit(int(next(iter(data.series.values()))["time_s"].iloc[-1]))
    words = {"violated_hosts_pct": "hosts above capacity (%)", "excess_pct": "use above capacity (% of capacity)"}
    layout = {
        "height": 320, "hovermode": "x unified",
        "xaxis": {"title": {"text": f"time since the start ({unit})"}},
        "yaxis": {"title": {"text": words[name]}, "rangemode": "tozero"},
        **_warmup(data.warmup_s / unit_s),
    }  # fmt: skip
    return {"data": _lines(data, colour_of, lambda time_s, pct: (time_s / unit_s, pct), name), "layout": layout}


def distribution_figure(data: ComparisonData, colour_of: Mapping[str, str]) -> Figure:
    """A line per label as in `empty_hosts_figure`: the share of the time without warm-up with at
    least so many hosts empty, at every whole percent of the time."""
    share_pct = np.arange(101)

    def spread(time_s: pd.Series, pct: pd.Series) -> tuple[np.ndarray, np.ndarray]:
        counted = pct[time_s >= min(data.warmup_s, time_s.iloc[-1])]
        return -np.percentile(-counted, share_pct, method="inverted_cdf"), share_pct

    layout = {
        "height": 400, "hovermode": "closest",
        "xaxis": {"title": {"text": "empty hosts (%)"}},
        "yaxis": {"title": {"text": "time with at least so many (%)"}, "range": [0, 102]},
    }  # fmt: skip
    first = next(iter(data.series.values()))
    bound = _bound(*spread(first["time_s"], first["bound_empty_hosts_pct"]))
    return {"data": [bound, *_lines(data, colour_of, spread)], "layout": layout}


def _bound(x: Any, y: Any) -> dict[str, Any]:
    """The bound's line, dotted."""
    return _line("bound", x, y, {"color": BOUND_COLOUR, "width": 1.5, "dash": "dot"})


def _lines(data: ComparisonData, colour_of: Mapping[str, str],
           points: Callable[[pd.Series, pd.Series], tuple[Any, Any]],
           name: str = "empty_hosts_pct") -> list[dict[str, Any]]:
    """A line per label. Visible: best-fit, the best deployable ones, the best that know the future.

    points: x and y of times and of the series `name`.
    """
    rows = data.at_main_load().set_index("label")
    more = set(rows.index[is_rejecting_more(rows)])
    best = rows[rows["policy"] != BASELINE].sort_values("gain_pp", ascending=False, kind="stable")
    is_known = best["predictor"].map(knows_the_future).astype(bool)
    known = best.index[is_known][:max(1, N_LINES - 2 - int((~is_known).sum()))]
    shown = {*rows.index[rows["policy"] == BASELINE], *known, *best.index[~is_known][:N_LINES - 2 - len(known)]}
    lines: list[dict[str, Any]] = []
    styles = line_styles((rows["policy"][label] for label in data.series), colour_of)
    for (label, series), (colour, dash) in zip(data.series.items(), styles, strict=True):
        line = _line(label, *points(series["time_s"], series[name]),
                     {"color": colour, "width": 2, "dash": _DASHES[dash]})
        if label in more:
            line["name"] += f"<br>{MORE_REJECTED}"
        lines.append({**line, "visible": label in shown or len(data.series) <= N_LINES})
    return sorted(lines, key=lambda line: not line.get("visible", True))  # stable: the legend begins with visible lines


def sweep_figure(sweep: Sweep, colour_of: Mapping[str, str]) -> Figure:
    """A line per label, with a band for its interval if it has one."""
    lines: list[dict[str, Any]] = []
    styles = line_styles(sweep.policies, colour_of)
    for (label, points), (colour, dash) in zip(sweep.lines.items(), styles, strict=True):
        style = {"color": colour, "width": 2, "dash": _DASHES[dash]}
        group = {"legendgroup": _escaped(label), "visible": len(lines) < 2 * N_LINES}
        band = points.dropna()
        x = [*band["x"], *band["x"][::-1]]
        y = [*band["gain_high_pp"], *band["gain_low_pp"][::-1]]
        lines.append({"type": "scatter", "x": _rounded(x), "y": _rounded(y), "fill": "toself", "mode": "none",
                      "fillcolor": colour, "opacity": 0.15, "hoverinfo": "skip", **group})
        lines.append({**_line(label, points["x"], points["gain_pp"], style), **group, "mode": "lines+markers"})
    layout = {
        "height": 400, "hovermode": "x unified",
        "xaxis": {"title": {"text": sweep.axis}},
        "yaxis": {"title": {"text": "pp over best-fit"}, "zeroline": True},
    }  # fmt: skip
    return {"data": lines, "layout": layout}


def host_map_figure(host_map: HostMap, warmup_s: int) -> Figure:
    """Hosts x time; the script fills `z` from `rows` and colours it; the emptiest host is on top.

    rows: in `layout.meta`, per colouring ("lifetime class", "host state"): one text per host from
        below, a digit per time, with `names` and `colours` of the digits.
    """
    moments = _spaced(len(host_map.time_s), MAX_MOMENTS)
    hosts = host_map.by_use()[_spaced(host_map.lifetime_class.shape[1], MAX_HOSTS)]
    unit, unit_s = time_unit(int(host_map.time_s[-1]))
    colourings = [_colouring("lifetime class", host_map.lifetime_class, ("empty", *CLASS_NAMES),
                             (EMPTY_COLOUR, *CLASS_COLOURS))]
    if host_map.state is not None:
        hues = [COLOURS[k % len(COLOURS)] for k in (4, 1, 2, 3, 5)]
        names = host_map.state_names
        colourings.append(_colouring("host state", host_map.state, names, (EMPTY_COLOUR, *hues)[: len(names)]))
    for colouring in colourings:
        states = colouring.pop("states")[np.ix_(moments, hosts)]
        colouring["rows"] = ["".join(map(str, host)) for host in states.T.tolist()]
    n_hosts = host_map.lifetime_class.shape[1]
    layout = {
        "height": min(max(300, 90 + 8 * len(hosts)), 640),
        "xaxis": {"title": {"text": f"time since the start ({unit})"}, "showgrid": False},
        "yaxis": {"title": {"text": "hosts" if len(hosts) == n_hosts else f"{len(hosts)} of {n_hosts:,} hosts"},
                  "showticklabels": False, "ticks": "", "type": "category", "showgrid": False},
        "meta": colourings,
        **_warmup(warmup_s / unit_s, is_shaded=False),
    }
    trace = {"type": "heatmap", "x": _rounded(host_map.time_s[moments] / unit_s), "y": [f"host {k}" for k in hosts],
             "showscale": False, "hovertemplate": "%{y}, %{x} " + unit + ": %{text}<extra></extra>"}
    return {"data": [trace], "layout": layout}


def time_unit(span_s: int) -> tuple[str, int]:
    """The unit in which a span is at least 3 long, and its seconds.

    >>> time_unit(7 * 86_400), time_unit(7_200)
    (('days', 86400), ('minutes', 60))
    """
    return next((unit for unit in _UNITS if span_s >= 3 * unit[1]), _UNITS[-1])


def _colouring(name: str, states: np.ndarray, names: Sequence[str], colours: Sequence[str]) -> dict[str, Any]:
    if states.size and (states.min() < 0 or states.max() >= min(len(names), 10)):
        raise ValueError(f"{name} must be 0..{min(len(names), 10) - 1}, got {states.min()}..{states.max()}")
    return {"name": name, "names": list(names), "colours": list(colours), "states": states}


def _line(label: str, x: Any, y: Any, style: Mapping[str, Any]) -> dict[str, Any]:
    return {"type": "scatter", "mode": "lines", "name": _escaped(label), "meta": label, "legendgroup": _escaped(label),
            "x": _rounded(x), "y": _rounded(y), "line": dict(style)}


def _warmup(until: float, is_shaded: bool = True) -> dict[str, Any]:
    if until <= 0:
        return {}
    shade = {"type": "rect", "x0": 0, "x1": until, "y0": 0, "y1": 1, "yref": "paper", "fillcolor": BOUND_COLOUR,
             "opacity": 0.15, "line": {"width": 0}, "layer": "below"}
    return {"shapes": [shade if is_shaded else _vertical(until)], "annotations": [_note("warm-up", until, "right")]}


def _vertical(x: float) -> dict[str, Any]:
    return {"type": "line", "x0": x, "x1": x, "y0": 0, "y1": 1, "yref": "paper",
            "line": {"color": BOUND_COLOUR, "width": 2, "dash": "dot"}}


def _note(text: str, x: float, anchor: str) -> dict[str, Any]:
    return {"text": text, "x": x, "y": 1, "yref": "paper", "yanchor": "bottom", "xanchor": anchor, "showarrow": False}


def _spaced(n: int, most: int) -> np.ndarray:
    """Indices of at most `most` of n, evenly spaced, the first and the last among them."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).round().astype(np.int64))


def _rounded(values: Any) -> list[float | None]:
    """Numbers with 4 decimals; None if not finite."""
    return [round(value, 4) + 0.0 if math.isfinite(value) else None for value in np.asarray(values, float).tolist()]


def _short(text: str) -> str:
    return text if len(text) <= _MAX_NAME else f"{text[: _MAX_NAME - 1]}…"


def _escaped(text: str) -> str:
    return html.escape(str(text), quote=False)


_FLAWED = re.compile(r"(?:one-shot:)?(?P<name>recall|noise)[: ](?P<value>[0-9]*\.?[0-9]+)")
_TITLES = {"recall": "Gain against recall", "noise": "Gain against noise"}
_AXES = {
    "recall": "long requests known as such (%)",
    "noise": "sigma of the lognormal noise on each lifetime",
}
_COLUMNS = ["policy", "x", "gain_pp", "gain_low_pp", "gain_high_pp"]
_PERFECT = {"recall": 100.0, "noise": 0.0}


@dataclass(frozen=True, slots=True)
class Sweep:
    """Gains of several policies as one setting changes.

    name: "load", "recall" or "noise", of the second workload "load-1" and so on. title, axis: of
        the figure and of its x axis.
    lines: by label, one row per setting in ascending order: `policy`, `x`, `gain_pp`,
        `gain_low_pp`, `gain_high_pp` (empty hosts over best-fit, percentage points, higher is
        better; 95 % interval, NaN for one seed).
    """

    name: str
    title: str
    axis: str
    lines: Mapping[str, pd.DataFrame]

    @property
    def policies(self) -> list[str]:
        """The policy of each line."""
        return [str(points["policy"].iloc[0]) for points in self.lines.values()]


def sweeps(data: ComparisonData) -> list[Sweep]:
    """What a summary varies on each workload: recall, noise (both at the main load), load; lines of 2 points or more.

    Recall and noise are read off the predictors' names (`recall:0.8`, `noise:1`), of each policy asked anew or, as
    `one-shot:recall:0.8`, once; there the oracle stands for full recall and for no noise, which it is.

    >>> summary = pd.DataFrame({"workload": "trace", "load": 0.8, "policy": "nilas", "predictor": ["noise:1", "oracle"],
    ...                         "label": "", "gain_pp": [1.0, 4.0], "gain_low_pp": 0.0, "gain_high_pp": 5.0})
    >>> found, = sweeps(ComparisonData("noise", "", summary, summary, {}, {}, [], 0))
    >>> found.name, found.lines["nilas"]["x"].tolist(), found.lines["nilas"]["gain_pp"].tolist()
    ('noise', [0.0, 1.0], [4.0, 1.0])
    """
    workloads = list(dict.fromkeys(data.summary["workload"]))
    found = []
    for k, workload in enumerate(workloads):
        own, which = (f"-{k}" if k else "", f": {workload}" if len(workloads) > 1 else "")
        main = data.at_main_load(workload)
        found += [Sweep(name + own, _TITLES[name] + which, axis, _flawed_lines(main, name))
                  for name, axis in _AXES.items()]
        every = data.summary[(data.summary["workload"] == workload) & (data.summary["policy"] != BASELINE)]
        points = every.assign(line=every["label"], x=100 * every["load"])
        found.append(Sweep(f"load{own}", f"Gain against load{which}", "peak load of the hosts (%)", _by_policy(points)))
    return [sweep for sweep in found if sweep.lines]


def _flawed_lines(rows: pd.DataFrame, name: str) -> dict[str, pd.DataFrame]:
    x, line = np.full(len(rows), np.nan), rows["policy"].tolist()
    for k, predictor in enumerate(rows["predictor"].tolist()):
        match = _FLAWED.fullmatch(predictor)
        if match is not None and match["name"] == name:
            x[k] = float(match["value"]) * (100 if name == "recall" else 1)
        elif predictor in ("oracle", "one-shot:oracle"):
            x[k] = _PERFECT[name]
        if predictor.startswith("one-shot:"):
            line[k] += " (one-shot)"
    return _by_policy(rows.assign(x=x, line=line))


def _by_policy(points: pd.DataFrame) -> dict[str, pd.DataFrame]:
    points = points[points["x"].notna() & points["gain_pp"].notna()]
    lines = {}
    for line, rows in points.groupby("line", sort=False):
        ordered = rows.sort_values("x").drop_duplicates("x")[_COLUMNS]
        if len(ordered) > 1:
            lines[str(line)] = ordered.reset_index(drop=True)
    return lines


COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#332288", "#882255", "#999933", "#661100",
           "#44aa99", "#ee99aa", "#000000")
"""Okabe and Ito's palette, for the colour-blind, then Tol's muted one; the last is that of text."""
BOUND_COLOUR = "#888888"
CLASS_COLOURS = ("#fde725", "#5ec962", "#21918c", "#3b528b")
"""Lifetime classes LC1..LC4, the longer the darker: viridis at 1, 3/4, 1/2, 1/4."""
CLASS_NAMES = ("LC1, under 1 h", "LC2, 1 to 10 h", "LC3, 10 to 100 h", "LC4, 100 h and more")
"""By the request that stays longest on a host (LAVA, section 4.3)."""
EMPTY_COLOUR = "#ececec"


def colours_of(policies: Iterable[str], baseline: str) -> dict[str, str]:
    """A colour per policy in their order, that of text for the baseline; they repeat after twelve.

    >>> colours_of(["best-fit", "nilas", "lava"], "best-fit")
    {'best-fit': '#000000', 'nilas': '#0072b2', 'lava': '#d55e00'}
    """
    others = [policy for policy in dict.fromkeys(policies) if policy != baseline]
    hues = COLOURS[:-1]
    return {baseline: COLOURS[-1], **{policy: hues[k % len(hues)] for k, policy in enumerate(others)}}


def line_styles(policies: Iterable[str], colour_of: Mapping[str, str]) -> list[tuple[str, int]]:
    """Colour and dash of each line: the policy's colour, and one of 5 dashes by the policy's
    earlier lines.

    >>> line_styles(["nilas", "lava", "nilas"], {"nilas": "#0072b2", "lava": "#d55e00"})
    [('#0072b2', 0), ('#d55e00', 0), ('#0072b2', 1)]
    """
    n_lines = dict.fromkeys(colour_of, -1)
    styles = []
    for policy in policies:
        n_lines[policy] += 1
        styles.append((colour_of[policy], n_lines[policy] % 5))
    return styles
