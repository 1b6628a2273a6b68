"""A study of lifetime families as tables and pictures: accuracy by week after training, calibration by age and by
week; on the terminal, and as the section "Study" of a trace's results page.

What predicting running requests anew brings is a table, too."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table

from sojourn.flows.console import FittedTable
from sojourn.flows.reports.figures import COLOURS, legend_beside, plain, two_panels
from sojourn.flows.reports.section import markdown_rows
from sojourn.models.measures import AGES_S, MEASURES, N_ENDS_MIN, PERCENTS, WEEKLY_AGES_S, age_prefix, time_label
from sojourn.simulator.measures import number_text, signed_text
from sojourn.simulator.page import label_ends, label_lines

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


HIGHER, LOWER = "higher", "lower"
_AIMS: Mapping[str, Callable[[float], float]] = {
    HIGHER: lambda value: -value, LOWER: lambda value: value, "80 %": lambda value: abs(value - 0.8),
}  # fmt: skip
StudyDocument = Mapping[str, Any]
"""A study as logged: `flows.study.study.Study` as JSON."""
_BRIER, CLASSES = "ages.ibs", "classes"
BASELINE_WORDS = (
    "Best baseline: the best one by the measure itself, on these same requests.",
    "Difference: chosen family minus baseline, in pairs. Verdict: better or worse where the 95 % interval excludes 0 "
    "(significant), level where it holds 0.",
)
_RESOLVED = "_at_2pct"
_N_WEEK_MIN = 50
"""A week with fewer requests is not drawn."""
_RIGHT: Mapping[str, Any] = {"color": "#444444", "linewidth": 0.8, "linestyle": ":"}
_NEAR = 0.1
"""A panel shows at least this much around the right value, so that a good model's lines look flat."""
_ROOM = 1.35
"""Width of a panel by week, as a multiple of its weeks, for names at the right of the lines."""
_N_MARKED = 15
"""Lines of fewer points than this have markers."""
TITLE = "Calibration by age"
CALIBRATION_WORDS = (
    "PIT dev.: largest gap to a uniform distribution at the deciles, of what remains at that age, among the requests "
    "that outlived it (lower = better).",
    "By 10, 50, 90 %: share of the requests that end by the predicted quantile, in %, censored ones by Kaplan-Meier; "
    "right where it is 10, 50, 90. In brackets: 95 % interval over owners (over requests where there are too few "
    "owners).",
    "Limits: ends within 2 % of a request's limit are one instant.",
    "Online: the same curves recalibrated online, as a predictor may do that learns from its own ends.",
    f"Ends: observed after that age. ~ marks a row of fewer than {N_ENDS_MIN}. By week, a cell with fewer is left out.",
)
_TITLES = ("family", "age", "ends", "PIT dev.", *(f"by {percent} %" for percent in PERCENTS))
_AGES = {age_prefix(age_s): time_label(age_s) if age_s else "creation" for age_s in (0, *AGES_S)}


def _words(table: str) -> tuple[str, ...]:
    return tuple(measure.words for measure in MEASURES.values() if measure.table == table and measure.words)


ACCURACY_WORDS, DISTRIBUTION_WORDS = _words("accuracy"), _words("distribution")


@dataclass(frozen=True, slots=True)
class Column:
    """A measure as a column. title: two lines. aim: the better value, a key of `_AIMS`; "" = none."""

    title: str
    key: str
    aim: str = HIGHER
    digits: int = 3

    @property
    def plain(self) -> str:
        """The title on one line."""
        return self.title.replace("\n", " ").strip()


def columns_of(study: StudyDocument, table: str) -> list[Column]:
    """A table's columns at the study's threshold, without measures that an older study lacks."""
    name = time_label(study["threshold_s"])
    is_logged = {key for values in study["scores"].values() for key in values}
    return [Column(measure.title.format(long=name), key, measure.better, measure.digits)
            for key, measure in MEASURES.items()
            if measure.table == table and measure.is_shown(study["threshold_s"])
            and (key in is_logged or (measure.of is None and key != _BRIER and table != CLASSES))]


def study_tables(study: StudyDocument) -> list[Table]:
    """Families x measures twice, their calibration by age, and the chosen family against the baselines."""
    tables = [_family_table(study, columns_of(study, "accuracy"), _title(study),
                            "\n".join([*ACCURACY_WORDS, f"* {_chosen(study)}"])),
              _family_table(study, columns_of(study, "distribution"), "Distribution and owners",
                            "\n".join(DISTRIBUTION_WORDS))]
    if (by_age := calibration_table(study)) is not None:
        tables.append(by_age)
    refreshed = refresh_table(*_refreshed(study), study.get("refresh_said", ""))
    tables += [] if refreshed is None else [refreshed]
    tables += [_family_table(study, columns, title, "\n".join(_words(CLASSES)))
               for title, columns in _class_columns(study)]
    if study["differences"]:
        titles = ("measure", study["chosen"], "95 % interval", "best baseline", "difference", "its interval", "verdict")
        table = FittedTable(f"{study['chosen']} against the baselines", titles, _pair_words(study),
                            least=("95 % interval", "its interval", "difference"))
        for k in (3, 6):
            table.columns[k].justify = "left"
        for row in baseline_rows(study):
            table.add_row(*row)
        tables.append(table)
    return tables


def study_markdown(study: StudyDocument) -> list[str]:
    """The section of a trace's page. The index explains the columns
    (`studies.results`)."""
    lines = ["## Study", "",
             f"- Requests: {study['n_past']:,} before second {study['test_from_s']:,}, {study['n_test']:,} after it.",
             f"- Chosen family (marked \\*): {_chosen(study)}",
             f"- Data {study['data_hash'][:12]}, version {study['code_version']}.", ""]
    for title, columns in (("Accuracy", columns_of(study, "accuracy")),
                           ("Distribution and owners", columns_of(study, "distribution"))):
        lines += _family_markdown(study, title, columns)
    lines += calibration_markdown(study)
    lines += refresh_markdown(*_refreshed(study))
    for title, columns in _class_columns(study):
        lines += _family_markdown(study, title, columns)
    if study["differences"]:
        lines += [f"### {study['chosen']} against the baselines", "",
                  *markdown_rows(["measure", study["chosen"], "95 % interval", "best baseline", "difference",
                                  "95 % interval", "verdict"], baseline_rows(study)), ""]
    seconds = ", ".join(f"{family} {fit_s:.1f}" for family, fit_s in study["fit_s"].items())
    said = study.get("refresh_said", "")
    notes = [*([f"- Running requests, on the validation window: {said}."] if said else []),
             f"- Seconds to fit: {seconds}.",
             *(f"- {name} left out: {reason}" for name, reason in study["refused"].items()),
             *(f"- {note}" for note in study.get("notes", ())),
             *(f"- {column} may not be known at creation: {reason}"
               for column, reason in study.get("suspects", {}).items())]
    return [*lines, "### Notes", "", *notes, ""]


def _refreshed(study: StudyDocument) -> tuple[Sequence[Mapping[str, Any]], Sequence[int]]:
    """Gains and ages of new predictions; empty for an older study."""
    return study.get("refreshed", ()), study.get("refresh_ages_s", ())


def _class_columns(study: StudyDocument) -> list[tuple[str, list[Column]]]:
    """Title and columns of the tables of classes, one for each scheduler with classes."""
    columns = columns_of(study, CLASSES)
    schedulers = dict.fromkeys(column.key.partition(".")[0] for column in columns)
    return [(f"Classes of {name.upper()}", [column for column in columns if column.key.startswith(f"{name}.")])
            for name in schedulers]


def _family_markdown(study: StudyDocument, title: str, columns: Sequence[Column]) -> list[str]:
    cells = [[_marked(study, family), *(f"**{text}**" if is_best else text for text, is_best in row)]
             for family, row in _cells(study, columns)]
    return [f"### {title}", "", *markdown_rows(["family", *(column.plain for column in columns)], cells), ""]


def _family_table(study: StudyDocument, columns: Sequence[Column], title: str, caption: str) -> Table:
    table = FittedTable(title, ("family", *(column.title for column in columns)), caption)
    for family, cells in _cells(study, columns):
        table.add_row(_marked(study, family), *(f"[bold]{text}[/]" if is_best else text for text, is_best in cells))
    return table


def _marked(study: StudyDocument, family: str) -> str:
    return f"{family} *" if family == study["chosen"] else family


def _title(study: StudyDocument) -> str:
    return f"{study['trace']}: {study['n_test']:,} later requests"


def _chosen(study: StudyDocument) -> str:
    """The choice with its reason; for an older study, with its score."""
    by = "Brier score over ages" if _has_brier(study) else "integrated Brier score (IBS)"
    said = study.get("said") or f"{study['chosen']}, by the {by} on the validation window."
    choice, best = study.get("choice", {}), study["best_of_all"]
    left_out = (words.partition(" (")[0] for words in choice.get("left_out", ()))
    return said if best in {study["chosen"], choice.get("rival"), *left_out} else (
        f"{said} Of all families {best} was best there; it cannot be served.")


def _has_brier(study: StudyDocument) -> bool:
    return any(_BRIER in values for values in study["scores"].values())


def _pair_words(study: StudyDocument) -> str:
    drawn = (f"{study['n_owners']:,} owners, drawn with replacement" if study["n_owners"]
             else "requests, drawn with replacement: there are too few owners")
    return "\n".join([f"Intervals: bootstrap of {drawn}.", *BASELINE_WORDS])


def _cells(study: StudyDocument, columns: Sequence[Column]) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Each family's cells as text and whether it is the column's best; the best on the validation window first."""
    order = sorted(study["scores"], key=lambda family: study["validation"][family])
    scores: Mapping[str, Mapping[str, float]] = {family: study["scores"][family] for family in order}
    best = {}
    for column in columns:
        values = [values[column.key] for values in scores.values() if column.key in values]
        if values:
            best[column.key] = min(values, key=_AIMS[column.aim])
    return [(family, [(f"{values[column.key]:,.{column.digits}f}" if column.key in values else "-",
                       column.key in values and values[column.key] == best[column.key])
                      for column in columns]) for family, values in scores.items()]


def baseline_rows(study: StudyDocument) -> list[list[str]]:
    """Rows: measure, value, interval, best baseline and its value, difference, interval, verdict."""
    chosen, rows = study["chosen"], []
    columns = [column for table in ("accuracy", "distribution", "calibration by age")
               for column in columns_of(study, table)]
    for column in (column for column in columns if MEASURES[column.key].is_paired):
        rivals = {family: study["scores"][family][column.key] for family, values in study["differences"].items()
                  if column.key in values}
        if not rivals:
            continue
        aim = _AIMS[column.aim]
        rival = min(rivals, key=lambda family: aim(rivals[family]))
        difference, low, high = study["differences"][rival][column.key]
        rows.append([column.plain, f"{study['scores'][chosen][column.key]:.3f}",
                     _interval(study["intervals"][chosen][column.key]), f"{rival} {rivals[rival]:.3f}",
                     signed_text(difference, 3), _interval((low, high), "+"), _verdict(low, high, column.aim)])
    return rows


def _interval(ends: tuple[float | None, float | None], sign: str = "") -> str:
    low, high = ends
    return "-" if low is None or high is None else f"{number_text(low, 3, sign)} to {number_text(high, 3, sign)}"


def _verdict(low: float | None, high: float | None, aim: str) -> str:
    if low is None or high is None or not (low > 0.0 or high < 0.0):
        return "level"
    return "better" if (low > 0.0) == (aim == HIGHER) else "worse"


def weeks_figure(study: Mapping[str, Any]) -> Figure:
    """F1 of "outlives the threshold" and error of the lifetime, by week after training (LAVA, figure 10)."""
    from matplotlib.ticker import MaxNLocator

    figure, (upper, lower) = two_panels(is_stacked=True)
    for axes, key, title in (
        (upper, "f1", f"F1 of “outlives {time_label(study['threshold_s'])}” (higher = better)"),
        (lower, "mae", "error, mean |log10 lifetime| (lower = better)"),
    ):
        for family, weeks in study["weeks"].items():
            points = [(week + 1, value) for week, n, value in zip(weeks["week"], weeks["n"], weeks[key], strict=True)
                      if value is not None and n >= _N_WEEK_MIN]
            draw_line(axes, family, points, study["chosen"])
        axes.set_xlabel("week after training, by arrival")
        axes.set_ylabel(title)
        axes.set_ylim(bottom=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        plain(axes)
    legend_beside(figure, lower)
    upper.set_title("Accuracy as the model grows old", loc="left")
    return figure


def draw_line(axes: Axes, family: str, points: list[tuple[float, float]], chosen: str, marker: str = "") -> None:
    """A family's line in its colour, the chosen one's wider, "FAMILY, online" dashed; nothing without points."""
    if points:
        name, _, how = family.partition(", ")
        axes.plot(*zip(*points, strict=True), label=family, color=COLOURS.get(name), marker=marker,
                  linewidth=2.6 if family == chosen else 1.4, linestyle="--" if how else "-")


def calibration_figure(study: StudyDocument) -> Figure:
    """Observed against predicted share that outlives the threshold; PIT at creation."""
    figure, (upper, lower) = two_panels(is_stacked=True)
    for family, points in study["calibration"].items():
        draw_line(upper, family, _pairs(points["predicted"], points["observed"]), study["chosen"], marker="o")
        draw_line(lower, family, _pairs(points["pit"], points["creation.pit_share"]), study["chosen"])
    for axes in (upper, lower):
        axes.plot((0, 1), (0, 1), label="a right model", **_RIGHT)
        plain(axes)
    legend_beside(figure, lower)
    name = time_label(study["threshold_s"])
    upper.set_xlabel(f"predicted share that outlives {name}, by tenth of requests")
    upper.set_ylabel("observed share (Kaplan-Meier)")
    upper.set_title("Are predicted shares what happens?", loc="left")
    lower.set_xlabel("predicted probability of having ended by the end (PIT)")
    lower.set_ylabel("share of requests up to there")
    lower.set_title("The whole distribution: above the line = ends come earlier", loc="left")
    return figure


def age_figure(study: StudyDocument) -> Figure:
    """A panel per age: the share that ends by each predicted quantile, less it, a line per family.

    Families with fewer than N_ENDS_MIN observed ends at an age are not drawn there. The panels
    share their scale. The chosen family is also drawn with online recalibration.
    """
    from matplotlib.figure import Figure

    lines: dict[int, dict[str, list[tuple[float, float]]]] = {}
    for age_s in (0, *AGES_S):
        prefix = age_prefix(age_s)
        lines[age_s] = {
            family: [(point, share - point) for point, share in _pairs(points["pit"], points[f"{prefix}.pit_share"])]
            for family, points in study["calibration"].items()
            if study["scores"][family].get(f"{prefix}.n_ends", 0.0) >= N_ENDS_MIN and f"{prefix}.pit_share" in points}
        chosen = study["calibration"][study["chosen"]]
        if study["chosen"] in lines[age_s] and f"online.{prefix}.pit_share" in chosen:
            lines[age_s][f"{study['chosen']}, online"] = [
                (point, share - point) for point, share in _pairs(chosen["pit"], chosen[f"online.{prefix}.pit_share"])]
    widest = max((abs(gap) for panel in lines.values() for points in panel.values() for _, gap in points), default=0.0)
    figure = Figure(figsize=(12, 8), layout="constrained")
    for place, (age_s, panel) in enumerate(lines.items(), 1):
        axes = figure.add_subplot(2, 2, place)
        axes.set_xlim(0, 1)
        axes.set_ylim(-1.08 * max(widest, _NEAR), 1.08 * max(widest, _NEAR))
        axes.axhline(0.0, **_RIGHT)
        _draw(axes, panel, study["chosen"], label_lines)
        n_ends = study["scores"][study["chosen"]].get(f"{age_prefix(age_s)}.n_ends", 0.0)
        name = f"at {time_label(age_s)}" if age_s else "at creation"
        axes.set_title(f"{name}: {n_ends:,.0f} ends", loc="left")
        axes.set_xlabel("predicted quantile")
        axes.set_ylabel("share that ended by it, minus it")
    figure.suptitle(f"{study['trace']}: coverage of predicted quantiles by age. 0 = right; above = ends come earlier "
                    "than predicted, below = later", fontsize=11, x=0.02, ha="left", color="#444444")
    return figure


def coverage_weeks_figure(study: StudyDocument) -> Figure:
    """Coverage of the 10, 50 and 90 % quantiles by week of arrival, at creation (above) and at 1 h, a line a family."""
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    figure = Figure(figsize=(13, 7.5), layout="constrained")
    n_weeks = max((len(weeks["week"]) for weeks in study["weeks"].values()), default=1)
    for column, percent in enumerate(PERCENTS):
        lines = {age_s: _by_week(study, f"{age_prefix(age_s)}.coverage_{percent}") for age_s in WEEKLY_AGES_S}
        values = [value for panel in lines.values() for points in panel.values() for _, value in points]
        low, high = min([*values, percent / 100 - _NEAR]), max([*values, percent / 100 + _NEAR])
        for row, age_s in enumerate(WEEKLY_AGES_S):
            axes = figure.add_subplot(len(WEEKLY_AGES_S), len(PERCENTS), row * len(PERCENTS) + column + 1)
            axes.set_xlim(1 - 0.04 * n_weeks, n_weeks * _ROOM)
            axes.set_ylim(max(low - 0.03, -0.02), min(high + 0.03, 1.02))
            axes.axhline(percent / 100, **_RIGHT)
            _draw(axes, lines[age_s], study["chosen"], label_ends)
            axes.set_xticks(range(1, n_weeks + 1, 1 + n_weeks // 8))
            axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            axes.set_title(f"{percent} % quantile {f'at {time_label(age_s)}' if age_s else 'at creation'}", loc="left")
            if row + 1 == len(WEEKLY_AGES_S):
                axes.set_xlabel("week after training, by arrival")
            if column == 0:
                axes.set_ylabel("ended by the quantile")
    figure.suptitle(f"{study['trace']}: coverage by week, weeks of at least {N_ENDS_MIN} ends. Dotted: a right model",
                    fontsize=11, x=0.02, ha="left", color="#444444")
    return figure


def _by_week(study: StudyDocument, name: str) -> dict[str, list[tuple[float, float]]]:
    return {family: [(week + 1, value) for week, value in _pairs(weeks["week"], weeks[name])]
            for family, weeks in study["weeks"].items() if name in weeks}


def _draw(axes: Axes, lines: Mapping[str, list[tuple[float, float]]], chosen: str,
          label: Callable[[Axes, Mapping[str, Sequence[tuple[float, float]]], Mapping[str, str]], None]) -> None:
    """Lines with names, or a note of too few ends; without lines equal to the chosen one."""
    hidden = [name for name, points in lines.items() if name != chosen and points == lines.get(chosen)]
    lines = {name: points for name, points in lines.items() if name not in hidden}
    for family, points in lines.items():
        draw_line(axes, family, points, chosen, marker="o" if len(points) < _N_MARKED else "")
    label(axes, lines, {name: COLOURS[base] for name in lines if (base := name.partition(", ")[0]) in COLOURS})
    if not any(lines.values()):
        axes.text(0.5, 0.75, f"fewer than {N_ENDS_MIN} ends", ha="center", transform=axes.transAxes, color="#444444")
    plain(axes)


def _pairs(x: Sequence[float | None], y: Sequence[float | None]) -> list[tuple[float, float]]:
    return [(a, b) for a, b in zip(x, y, strict=True) if a is not None and b is not None]


def calibration_rows(study: StudyDocument) -> list[list[str]]:
    """A row per family and age: family, age, ends, then each figure with its interval; the best on
    validation first. Rows with online recalibration follow, if the study has them.

    No rows for an older study, or for an age that no request outlived.
    """
    rows = []
    for family in sorted(study["scores"], key=lambda name: study["validation"][name]):
        name = f"{family} *" if family == study["chosen"] else family
        rows += _rows_of(name, study["scores"][family], study["intervals"].get(family, {}))
        rows += _rows_of(f"{family}, online", study.get("online", {}).get(family, {}), {})
    return rows


def _rows_of(family: str, scores: Mapping[str, float],
             intervals: Mapping[str, Sequence[float | None]]) -> list[list[str]]:
    rows = []
    for prefix, age in _AGES.items():
        if f"{prefix}.n_ends" not in scores:
            continue
        n_ends = scores[f"{prefix}.n_ends"]
        mark = " ~" if n_ends < N_ENDS_MIN else ""
        name = f"{prefix}.pit_deviation"
        for suffix in ("", _RESOLVED) if f"{name}{_RESOLVED}" in scores else ("",):
            cells = [_cell(scores.get(f"{name}{suffix}"), intervals.get(f"{name}{suffix}"), 1.0, 3, mark)]
            for coverage in (f"{prefix}.coverage_{percent}{suffix}" for percent in PERCENTS):
                cells.append(_cell(scores.get(coverage), intervals.get(coverage), 100.0, 1, mark))
            rows.append([family, f"{age}, limits" if suffix else age, f"{n_ends:,.0f}", *cells])
    return rows


def _cell(value: float | None, ends: Sequence[float | None] | None, scale: float, digits: int, mark: str) -> str:
    if value is None or math.isnan(value):  # no request was followed that far
        return "-"
    low, high = ends or (None, None)
    wide = digits if scale == 1.0 else 0  # of %, whole ones: the line must fit into 120 columns
    interval = "" if low is None or high is None else f" [{scale * low:.{wide}f} {scale * high:.{wide}f}]"
    return f"{scale * value:.{digits}f}{mark}{interval}"


def calibration_table(study: StudyDocument) -> Table | None:
    """For the terminal; None for an older study without these measures."""
    rows = calibration_rows(study)
    if not rows:
        return None
    table = FittedTable(TITLE, _TITLES, "\n".join(CALIBRATION_WORDS), n_text=2, wrapped=_TITLES[3:])
    for at, row in enumerate(rows):
        is_last = at + 1 == len(rows) or rows[at + 1][0] != row[0]
        table.add_row(*(text.replace("[", r"\[") for text in row), end_section=is_last)
    return table


def calibration_markdown(study: StudyDocument) -> list[str]:
    """The same on a page, and the choice's calibration by week of arrival; [] for older studies."""
    rows = calibration_rows(study)
    if not rows:
        return []
    lines = [f"### {TITLE}", "", *markdown_rows(_TITLES, rows, n_text=2), ""]
    titles = ["week", *(f"{title} at {_AGES[age_prefix(age_s)]}" for age_s in WEEKLY_AGES_S for title in _TITLES[2:])]
    if rows := week_rows(study["weeks"].get(study["chosen"], {})):
        lines += [f"### Calibration of {study['chosen']} by week of arrival", "", *markdown_rows(titles, rows), ""]
    return lines


def week_rows(weeks: Mapping[str, Sequence[float | None]]) -> list[list[str]]:
    """A row per week after training, from 1: ends, PIT deviation, coverage (%), at 0 and 1 h."""
    prefixes = [age_prefix(age_s) for age_s in WEEKLY_AGES_S]
    if f"{prefixes[0]}.n_ends" not in weeks:
        return []
    rows = []
    for at, week in enumerate(weeks["week"]):
        row = [f"{(week or 0.0) + 1.0:.0f}"]
        for prefix in prefixes:
            values = {name: column[at] for name, column in weeks.items() if name.startswith(f"{prefix}.")}
            row += [f"{values.get(f'{prefix}.n_ends') or 0.0:,.0f}",
                    _cell(values.get(f"{prefix}.pit_deviation"), None, 1.0, 3, ""),
                    *(_cell(values.get(f"{prefix}.coverage_{percent}"), None, 100.0, 1, "") for percent in PERCENTS)]
        rows.append(row)
    return rows


REFRESH = "Refresh"
REFRESH_WORDS = (
    "Refresh: requests seen alive at an age, by the curve of their admission (held) and by a new one from the history "
    "as it stands then (refreshed). Brier: of what remains, integrated over log time (lower = better). +-: standard "
    "error of the difference, over owners (over requests where there are too few owners).",
    "MAE: of log10 of what remains, of observed ends (lower = better). Served: the ages at which the new curve was "
    "better by more than a standard error on the validation window.",
)
_REFRESH_TITLES = ("age", "requests", "Brier\nheld", "Brier\nrefreshed", "+-", "MAE\nheld", "MAE\nrefreshed", "served")


def refresh_rows(gains: Sequence[Mapping[str, Any]], ages_s: Sequence[int]) -> list[list[str]]:
    """A row per age. gains: `AgeGain.document()` of the test window. ages_s: the served ages."""
    return [[time_label(gain["age_s"]), f"{gain['n']:,}", *(_text(gain[name]) for name in (
        "held", "refreshed", "error", "mae_held", "mae_refreshed")), "yes" if gain["age_s"] in ages_s else "no"]
        for gain in gains]


def _text(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def refresh_table(gains: Sequence[Mapping[str, Any]], ages_s: Sequence[int], choice: str) -> Table | None:
    """For the terminal; None without gains. choice: on the validation window, in words."""
    if not gains:
        return None
    caption = "\n".join((*REFRESH_WORDS, f"Validation: {choice}"))
    table = FittedTable(f"{REFRESH}, test window", _REFRESH_TITLES, caption)
    for row in refresh_rows(gains, ages_s):
        table.add_row(*row)
    return table


def refresh_markdown(gains: Sequence[Mapping[str, Any]], ages_s: Sequence[int]) -> list[str]:
    """The same on a page; [] for a study without it."""
    titles = [title.replace("\n", " ") for title in _REFRESH_TITLES]
    return [f"### {REFRESH}", "", *markdown_rows(titles, refresh_rows(gains, ages_s)), ""] if gains else []
