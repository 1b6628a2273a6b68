"""Figures of placement by usage: violation rate, severity and utilisation, as bars or by a setting."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from matplotlib.figure import Figure

PANELS = (("request_rate_pct", "violation rate of a request, %"), ("severity_pct", "violation severity, %"),
          ("used_pct", "utilisation, %"))
_STYLES = ("o-", "s--", "^-.", "v:")
"""Lines that lie on each other stay visible."""
_GREY = "#444444"


def bars_figure(means: pd.DataFrame, title: str) -> Figure:
    """One bar for each label, with its 95 % interval over orders; as figures 7 and 8 of the paper."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 1.6 + 0.28 * len(means)), layout="constrained")
    axes = figure.subplots(1, len(PANELS), sharey=True)
    labels = means["label"].tolist()[::-1]
    for own, (name, words) in zip(axes, PANELS, strict=True):
        values, half = means[name].tolist()[::-1], (means[f"{name}_high"] - means[name]).fillna(0).tolist()[::-1]
        own.barh(labels, values, xerr=half, color="#4878a8", error_kw={"elinewidth": 1, "ecolor": _GREY, "capsize": 2})
        own.set_xlabel(words)
        if name == "used_pct":
            own.set_xlim(left=max(0.0, min(values) - 2))
    figure.suptitle(title, fontsize=9, x=0.02, ha="left", color=_GREY)
    return figure


def lines_figure(means: pd.DataFrame, by: str, words: str, title: str) -> Figure:
    """One line for each label over a setting, with bands of 95 % intervals; as figures 9 and 10 of the paper.

    A label of another number in it, such as `squares, 10 %`, is no line: give the table of one policy.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 3.4), layout="constrained")
    axes = figure.subplots(1, len(PANELS))
    for own, (name, what) in zip(axes, PANELS, strict=True):
        for k, (label, rows) in enumerate(means.groupby("label", sort=False)):
            own.plot(rows[by], rows[name], _STYLES[k % len(_STYLES)], markersize=3, label=str(label))
            own.fill_between(rows[by], rows[f"{name}_low"], rows[f"{name}_high"], alpha=0.2)
        own.set_xlabel(words)
        own.set_ylabel(what)
    axes[0].legend(fontsize=7)
    figure.suptitle(title, fontsize=9, x=0.02, ha="left", color=_GREY)
    return figure
