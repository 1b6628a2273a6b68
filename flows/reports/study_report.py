"""Studies as tables: on the terminal, and as the section "Study" of a trace's results page."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from sojourn.flows.reports.calibration_table import calibration_markdown, calibration_table
from sojourn.flows.reports.refresh_table import refresh_markdown, refresh_table
from sojourn.flows.reports.section import markdown_rows
from sojourn.models.measures import MEASURES, time_label

HIGHER, LOWER = "higher", "lower"
_AIMS: Mapping[str, Callable[[float], float]] = {
    HIGHER: lambda value: -value, LOWER: lambda value: value, "80 %": lambda value: abs(value - 0.8),
}  # fmt: skip
Found = Mapping[str, Any]
"""A study as logged: `flows.jobs.study.Study` as JSON."""
_BRIER, CLASSES = "ages.ibs", "classes"


def _words(table: str) -> tuple[str, ...]:
    return tuple(measure.words for measure in MEASURES.values() if measure.table == table and measure.words)


ACCURACY_WORDS, DISTRIBUTION_WORDS = _words("accuracy"), _words("distribution")
BASELINE_WORDS = (
    "Best baseline: the best one by the measure itself, on these same requests.",
    "Difference: chosen family minus baseline, in pairs. Verdict: better or worse where the 95 % interval excludes 0 "
    "(significant), level where it holds 0.",
)


@dataclass(frozen=True, slots=True)
class Column:
    """A measure as a column. title: two lines. aim: which value is better, a key of `_AIMS`; "" = none is."""

    title: str
    key: str
    aim: str = HIGHER
    digits: int = 3

    @property
    def plain(self) -> str:
        """The title on one line."""
        return self.title.replace("\n", " ").strip()


def columns_of(found: Found, table: str) -> list[Column]:
    """A table's columns at the study's threshold; no measure that it was logged without, before there was one."""
    name = time_label(found["threshold_s"])
    is_logged = {key for values in found["scores"].values() for key in values}
    return [Column(measure.title.format(long=name), key, measure.better, measure.digits)
            for key, measure in MEASURES.items()
            if measure.table == table and measure.is_shown(found["threshold_s"])
            and (key in is_logged or (measure.of is None and key != _BRIER and table != CLASSES))]


def study_tables(found: Found) -> list[Table]:
    """Families x measures twice, their calibration by age, and the chosen family against the baselines."""
    tables = [_family_table(found, columns_of(found, "accuracy"), _title(found),
                            "\n".join([*ACCURACY_WORDS, f"* {_chosen(found)}"])),
              _family_table(found, columns_of(found, "distribution"), "Distribution and owners",
                            "\n".join(DISTRIBUTION_WORDS))]
    if (by_age := calibration_table(found)) is not None:
        tables.append(by_age)
    refreshed = refresh_table(*_refreshed(found), found.get("refresh_said", ""))
    tables += [] if refreshed is None else [refreshed]
    tables += [_family_table(found, columns, title, "\n".join(_words(CLASSES)))
               for title, columns in _class_columns(found)]
    if found["differences"]:
        table = Table(title=f"{found['chosen']} against the baselines", title_justify="left",
                      caption=_pair_words(found), caption_justify="left")
        table.add_column("measure", no_wrap=True)
        for title in (found["chosen"], "95 % interval", "best baseline", "difference", "95 % interval", "verdict"):
            table.add_column(title, justify="left" if title in ("best baseline", "verdict") else "right", no_wrap=True)
        for row in baseline_rows(found):
            table.add_row(*row)
        tables.append(table)
    return tables


def study_markdown(found: Found) -> list[str]:
    """The section of a trace's page. What the columns mean stands on the index (`flows.reports.results_pages`)."""
    lines = ["## Study", "",
             f"- Requests: {found['n_past']:,} before second {found['test_from_s']:,}, {found['n_test']:,} after it.",
             f"- Chosen family (marked \\*): {_chosen(found)}",
             f"- Data {found['data_hash'][:12]}, version {found['code_version']}.", ""]
    for title, columns in (("Accuracy", columns_of(found, "accuracy")),
                           ("Distribution and owners", columns_of(found, "distribution"))):
        lines += _family_markdown(found, title, columns)
    lines += calibration_markdown(found)
    lines += refresh_markdown(*_refreshed(found))
    for title, columns in _class_columns(found):
        lines += _family_markdown(found, title, columns)
    if found["differences"]:
        lines += [f"### {found['chosen']} against the baselines", "",
                  *markdown_rows(["measure", found["chosen"], "95 % interval", "best baseline", "difference",
                                  "95 % interval", "verdict"], baseline_rows(found)), ""]
    seconds = ", ".join(f"{family} {fit_s:.1f}" for family, fit_s in found["fit_s"].items())
    said = found.get("refresh_said", "")
    notes = [*([f"- Running requests, on the validation window: {said}."] if said else []),
             f"- Seconds to fit: {seconds}.",
             *(f"- {name} left out: {reason}" for name, reason in found["refused"].items()),
             *(f"- {note}" for note in found.get("notes", ())),
             *(f"- {column} may not be known at creation: {reason}"
               for column, reason in found.get("suspects", {}).items())]
    return [*lines, "### Notes", "", *notes, ""]


def _refreshed(found: Found) -> tuple[Sequence[Mapping[str, Any]], Sequence[int]]:
    """Of a study that is older than refresh: nothing."""
    return found.get("refreshed", ()), found.get("refresh_ages_s", ())


def _class_columns(found: Found) -> list[tuple[str, list[Column]]]:
    """Title and columns of the tables of classes, one for each scheduler whose classes the trace shows."""
    columns = columns_of(found, CLASSES)
    schedulers = dict.fromkeys(column.key.partition(".")[0] for column in columns)
    return [(f"Classes of {name.upper()}", [column for column in columns if column.key.startswith(f"{name}.")])
            for name in schedulers]


def _family_markdown(found: Found, title: str, columns: Sequence[Column]) -> list[str]:
    cells = [[_marked(found, family), *(f"**{text}**" if is_best else text for text, is_best in row)]
             for family, row in _cells(found, columns)]
    return [f"### {title}", "", *markdown_rows(["family", *(column.plain for column in columns)], cells), ""]


def _family_table(found: Found, columns: Sequence[Column], title: str, caption: str) -> Table:
    table = Table(title=title, title_justify="left", caption_justify="left", caption=caption)
    table.add_column("family", no_wrap=True)
    for column in columns:
        table.add_column(column.title, justify="right", no_wrap=True)
    for family, cells in _cells(found, columns):
        table.add_row(_marked(found, family), *(f"[bold]{text}[/]" if is_best else text for text, is_best in cells))
    return table


def _marked(found: Found, family: str) -> str:
    return f"{family} *" if family == found["chosen"] else family


def _title(found: Found) -> str:
    return f"{found['trace']}: {found['n_test']:,} later requests"


def _chosen(found: Found) -> str:
    """What was chosen, and why; of a study that is older than the rule, by what score."""
    by = "Brier score over ages" if _has_brier(found) else "integrated Brier score (IBS)"
    said = found.get("said") or f"{found['chosen']}, by the {by} on the validation window."
    served = {found["chosen"], found.get("choice", {}).get("rival")}
    return said if found["best_of_all"] in served else (
        f"{said} Of all families {found['best_of_all']} was best there; it cannot be served.")


def _has_brier(found: Found) -> bool:
    """Whether it was logged after that measure was added."""
    return any(_BRIER in values for values in found["scores"].values())


def _pair_words(found: Found) -> str:
    drawn = (f"{found['n_owners']:,} owners, drawn with replacement" if found["n_owners"]
             else "requests, drawn with replacement: there are too few owners")
    return "\n".join([f"Intervals: bootstrap of {drawn}.", *BASELINE_WORDS])


def _cells(found: Found, columns: Sequence[Column]) -> list[tuple[str, list[tuple[str, bool]]]]:
    """Each family's cells as text and whether it is the column's best; the best on the validation window first."""
    order = sorted(found["scores"], key=lambda family: found["validation"][family])
    scores: Mapping[str, Mapping[str, float]] = {family: found["scores"][family] for family in order}
    best = {}
    for column in columns:
        values = [values[column.key] for values in scores.values() if column.key in values]
        if values:
            best[column.key] = min(values, key=_AIMS[column.aim])
    return [(family, [(f"{values[column.key]:,.{column.digits}f}" if column.key in values else "-",
                       column.key in values and values[column.key] == best[column.key])
                      for column in columns]) for family, values in scores.items()]


def baseline_rows(found: Found) -> list[list[str]]:
    """Rows: measure, value, interval, best baseline and its value, difference, interval, verdict."""
    chosen, rows = found["chosen"], []
    columns = [column for table in ("accuracy", "distribution", "calibration by age")
               for column in columns_of(found, table)]
    for column in (column for column in columns if MEASURES[column.key].is_paired):
        rivals = {family: found["scores"][family][column.key] for family, values in found["differences"].items()
                  if column.key in values}
        if not rivals:
            continue
        aim = _AIMS[column.aim]
        rival = min(rivals, key=lambda family: aim(rivals[family]))
        difference, low, high = found["differences"][rival][column.key]
        rows.append([column.plain, f"{found['scores'][chosen][column.key]:.3f}",
                     _interval(found["intervals"][chosen][column.key]), f"{rival} {rivals[rival]:.3f}",
                     f"{difference:+.3f}", _interval((low, high), "+"), _verdict(low, high, column.aim)])
    return rows


def _interval(ends: tuple[float | None, float | None], sign: str = "") -> str:
    low, high = ends
    return "-" if low is None or high is None else f"{low:{sign}.3f} to {high:{sign}.3f}"


def _verdict(low: float | None, high: float | None, aim: str) -> str:
    if low is None or high is None or not (low > 0.0 or high < 0.0):
        return "level"
    return "better" if (low > 0.0) == (aim == HIGHER) else "worse"
