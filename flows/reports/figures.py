"""Pictures of a run, in matplotlib: logged to MLflow, saved beside the bundle, shown in the README."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from sojourn.models.lifetime import LIFETIME_MODELS
from sojourn.models.measures import AGES_S, UPTIME_SHARES, time_label

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_PALETTE = ("#8c8c8c", "#d98c3f", "#7b6bb0", "#3b6fb5", "#1b7f79", "#c2a21c", "#76a03a", "#b5483a", "#c765a5",
            "#7a5236", "#2b2b2b")  # fmt: skip
COLOURS: Mapping[str, str] = dict(zip(LIFETIME_MODELS, _PALETTE, strict=False))
"""By family; later families have matplotlib's own colours."""
_STYLES: Mapping[str, Mapping[str, Any]] = {"hazard": {"linewidth": 3.0}, "mixture": {"linestyle": "--"}}
"""What differs from a plain line, by family: a mixture that is all hazard lies on its line, and both are to be seen."""
_GAIN, _LOSS, _BOUND = "#1b7f79", "#b5483a", "#8c8c8c"


def accuracy_figure(scores: Mapping[str, Mapping[str, float]], threshold_s: int) -> Figure:
    """Two panels: errors at absolute ages (what a scheduler meets), and F1 by share of the own lifetime."""
    figure, (left, right) = two_panels()
    draw_errors_by_age(left, scores)
    draw_f1_by_share(right, scores, threshold_s)
    legend_beside(figure, left)
    return figure


def overview_figure(scores: Mapping[str, Mapping[str, float]], simulation: pd.DataFrame, title: str) -> Figure:
    """Two panels: errors at absolute ages, and gains in empty hosts over best-fit."""
    figure, (left, right) = two_panels()
    draw_errors_by_age(left, scores)
    legend(left)
    draw_gains(right, simulation)
    figure.suptitle(title, fontsize=11, x=0.02, ha="left", color="#444444")
    return figure


def importance_figure(names: Sequence[str], gains: Sequence[float], family: str) -> Figure:
    """The 20 features with the largest split gain, as shares of the total."""
    from matplotlib.figure import Figure

    total = sum(gains) or 1.0
    largest = sorted(zip(gains, names, strict=True), reverse=True)[:20][::-1]
    figure = Figure(figsize=(7, 5.5), layout="constrained")
    axes = figure.add_subplot()
    axes.barh([name for _, name in largest], [100.0 * gain / total for gain, _ in largest], color=_GAIN)
    axes.set_xlabel("share of split gain, % (higher = used more)")
    axes.set_title(f"What {family} looks at", loc="left")
    plain(axes)
    return figure


def shap_figure(names: Sequence[str], means: Sequence[float], family: str, n_rows: int, unit: str) -> Figure:
    """The 15 features with the largest mean |SHAP| over a sample of `n_rows` test rows, in units of the score."""
    from matplotlib.figure import Figure

    largest = sorted(zip(means, names, strict=True), reverse=True)[:15][::-1]
    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.add_subplot()
    axes.barh([name for _, name in largest], [mean for mean, _ in largest], color=_GAIN)
    axes.set_xlabel(f"mean |SHAP|, {unit} (higher = moves answers more)")
    axes.set_title(f"What moves {family}'s answers ({n_rows:,} test rows)", loc="left")
    plain(axes)
    return figure


def search_figure(values: Sequence[float | None]) -> Figure:
    """Each finished trial's score as a share of the defaults', and the best so far."""
    from matplotlib.figure import Figure

    points = [(number, value) for number, value in enumerate(values, 1) if value is not None]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.add_subplot()
    if points:
        numbers, scores = zip(*points, strict=True)
        axes.plot(numbers, scores, "o", color=COLOURS["km"], label="trial")
        axes.step(numbers, list(accumulate(scores, min)), where="post", color=_GAIN, label="best so far")
    axes.axhline(1.0, color="#444444", linewidth=0.8, linestyle=":")
    axes.set_xlabel("trial")
    axes.set_ylabel("Brier score, share of the defaults' (lower = better)")
    axes.set_title("The search, on the validation windows", loc="left")
    legend(axes)
    plain(axes)
    return figure


def draw_errors_by_age(axes: Axes, scores: Mapping[str, Mapping[str, float]]) -> None:
    """MAE of log10 remaining at creation and at each absolute age, one line a family."""
    labels = ["creation", *(time_label(age_s) for age_s in AGES_S)]
    keys = ["creation.mae_log10_lifetime", *(f"age_{label}.mae_log10_remaining" for label in labels[1:])]
    for family, values in scores.items():
        points = [(position, values[key]) for position, key in enumerate(keys) if key in values]
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", label=family, color=COLOURS.get(family),
                      **_STYLES.get(family, {}))
    axes.set_xticks(range(len(labels)), labels)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("age at which the scheduler asks")
    axes.set_ylabel("error, mean |log10 remaining| (lower = better)")
    axes.set_title("Error of the predicted remaining time, by age", loc="left")
    plain(axes)


def draw_f1_by_share(axes: Axes, scores: Mapping[str, Mapping[str, float]], threshold_s: int) -> None:
    """F1 of "outlives the threshold" at shares of each request's own lifetime (LAVA, figure 9)."""
    name = time_label(threshold_s)
    for family, values in scores.items():
        keys = [(share, f"share_{round(100 * share):02d}.f1_long") for share in UPTIME_SHARES]
        points = [(100 * share, values[key]) for share, key in keys if key in values]
        if points:
            axes.plot(*zip(*points, strict=True), label=family, color=COLOURS.get(family),
                      **_STYLES.get(family, {}))
    axes.set_ylim(0, 1)
    axes.set_xlabel("uptime, % of the request's own lifetime")
    axes.set_ylabel(f"F1 of “outlives {name}” (higher = better)")
    axes.set_title("By share of the own lifetime (it knows the answer)", loc="left")
    plain(axes)


def draw_gains(axes: Axes, simulation: pd.DataFrame) -> None:
    """Gain in empty hosts over best-fit per policy and predictor, and what the bound leaves."""
    rows = simulation[simulation["policy"] != "best-fit"].iloc[::-1]
    labels = [policy if not predictor else f"{policy} · {predictor}"
              for policy, predictor in zip(rows["policy"], rows["predictor"], strict=True)]
    gains = rows["gain_pp"].tolist()
    axes.barh(labels, gains, color=[_GAIN if gain >= 0 else _LOSS for gain in gains])
    if "gain_low_pp" in rows and rows["gain_low_pp"].notna().all():
        half = (rows["gain_high_pp"] - rows["gain_low_pp"]) / 2.0
        axes.errorbar(gains, labels, xerr=half.tolist(), fmt="none", ecolor="#444444", elinewidth=1, capsize=3)
        ends = [gain + (width if gain >= 0 else -width) for gain, width in zip(gains, half, strict=True)]
    else:
        ends = gains
    span = max(map(abs, gains), default=1.0) or 1.0
    for position, (gain, end) in enumerate(zip(gains, ends, strict=True)):
        axes.text(end + (0.02 if gain >= 0 else -0.02) * span, position, f"{gain:+.1f}", va="center",
                  ha="left" if gain >= 0 else "right", fontsize=9)
    axes.axvline(0, color="#444444", linewidth=0.8)
    axes.margins(x=0.15)
    axes.set_xlabel("empty hosts over best-fit, pp (higher = better; 95 % interval)")
    axes.set_title("Empty hosts gained over best-fit", loc="left")
    plain(axes)


def two_panels() -> tuple[Figure, tuple[Axes, Axes]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.6), layout="constrained")  # pyplot would keep each figure of a process for good
    return figure, (figure.add_subplot(1, 2, 1), figure.add_subplot(1, 2, 2))


def legend(axes: Axes) -> None:
    """A legend, or that nothing could be measured: a test window without an observed end has no errors."""
    if axes.lines:
        axes.legend(frameon=False)
    else:
        axes.text(0.5, 0.5, "too few observed ends to measure", ha="center", va="center", transform=axes.transAxes,
                  color="#444444")


def legend_beside(figure: Figure, axes: Axes) -> None:
    """One legend beside the panels: with eleven families it would hide lines; or that nothing could be measured."""
    if axes.lines:
        figure.legend(*axes.get_legend_handles_labels(), frameon=False, loc="outside right center")
    else:
        legend(axes)


def plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    axes.set_axisbelow(True)
