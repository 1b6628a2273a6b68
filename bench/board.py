"""The board: ranks of all entries with intervals, as Markdown, CSV and a page, from `evaluate` alone.

    python -m bench.board [--tasks lite|full] [--results FOLDER] [--out FOLDER]

Writes `lite.md`, `lite.csv` and `lite.html` (or `full.*`). No mean over tasks is taken: traces differ too much in what
can be known. A rank has a 95 % interval: the entries are ranked anew in each of the draws that they share. Entries that
know the future are shown without a rank.
"""

from __future__ import annotations

import argparse
import csv
import html
import io
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from bench.evaluate import MEASURES, Measure, Score, checked_scores, entries
from bench.submission import RESULTS, Entry, file_digest, read_system
from bench.tasks import BENCH, VERSION, Task, load_task, task_names
from sojourn.models.measures import interval

BOARD = BENCH / "board"
REFERENCES: Mapping[str, str] = MappingProxyType({"predict": "km", "queue": "easy", "place": "best-fit",
                                                 "end": "end-best-fit"})
"""The entry of each track that differences are taken from."""
COLUMNS = ("task", "method", "division", "leaks", "measure", "value", "low", "high", "rank", "rank_low", "rank_high",
           "difference", "difference_low", "difference_high", "file_sha256")
_STYLE = ("body{font:15px/1.5 system-ui,sans-serif;max-width:76rem;margin:2rem auto;padding:0 1rem;color:#222}"
          "table{border-collapse:collapse;margin:1rem 0}td,th{padding:.25rem .7rem;border-bottom:1px solid #ddd;"
          "text-align:right;font-variant-numeric:tabular-nums}td:first-child,th:first-child{text-align:left}"
          "th{border-bottom:2px solid #888}")


@dataclass(frozen=True, slots=True)
class Ranked:
    """An entry's scores on a task. ranks: of each measure the rank and its interval; None if it has none.
    differences: to the reference, with interval; None without one, and for the reference itself."""

    entry: Entry
    scores: Mapping[str, Score]
    ranks: Mapping[str, tuple[int, int, int] | None]
    differences: Mapping[str, tuple[float, float, float] | None]


def ranked(task: Task, scores: Mapping[str, Mapping[str, Score]], of: Mapping[str, Entry]) -> list[Ranked]:
    """All entries of a task, best first by the first measure; those that know the future, or were not scored, last."""
    measures = MEASURES[task.track]
    in_ranks = [name for name in scores if not of[name].knows_future]
    ranks = {measure: ranks_of({name: scores[name][measure] for name in in_ranks}, each)
             for measure, each in measures.items() if each.is_ranked}
    first = scores.get(REFERENCES[task.track])

    def difference(name: str, measure: str) -> tuple[float, float, float] | None:
        if first is None or name == REFERENCES[task.track]:
            return None
        own, other = scores[name][measure], first[measure]
        return own.value - other.value, *interval(own.draws - other.draws)

    found = [Ranked(of[name], each, {measure: ranks.get(measure, {}).get(name) for measure in measures},
                    {measure: difference(name, measure) for measure in measures}) for name, each in scores.items()]
    lead = next(iter(measures))
    return sorted(found, key=lambda each: (each.ranks[lead] or (math.inf,))[0])


def ranks_of(scores: Mapping[str, Score], measure: Measure) -> dict[str, tuple[int, int, int]]:
    """Rank (1 = best; equals share one) and its 95 % interval of each entry that has the measure.

    >>> good, bad = Score(0.1, np.array([0.1, 0.3])), Score(0.2, np.array([0.2, 0.2]))
    >>> ranks_of({"a": good, "b": bad}, Measure("error", "lower"))
    {'a': (1, 1, 2), 'b': (2, 1, 2)}
    """
    names = [name for name, score in scores.items() if not math.isnan(score.value)]
    if not names:
        return {}
    values = np.array([[scores[name].value, *scores[name].draws] for name in names])
    losses = np.round(measure.losses(values), 12)  # 0.7 and 0.9 are as far from 0.8
    losses = np.where(np.isnan(losses), np.inf, losses)
    ranks = 1 + (losses[None] < losses[:, None]).sum(axis=1)
    low = np.quantile(ranks[:, 1:], 0.025, axis=1, method="lower")
    high = np.quantile(ranks[:, 1:], 0.975, axis=1, method="higher")
    return {name: (int(ranks[k, 0]), int(low[k]), int(high[k])) for k, name in enumerate(names)}


def leaks_label(entry: Entry, task: str) -> str:
    """What is known of leaks: knows the future, none found (by this file's own run), or not searched."""
    return "oracle" if entry.knows_future else "none found" if entry.is_checked(task) else "not searched"


def rows_of(task: Task, found: Sequence[Ranked]) -> Iterator[list[str]]:
    """The rows of the CSV file."""
    for each in found:
        digest = file_digest(each.entry.file(task.name))
        for measure, score in each.scores.items():
            numbers = [score.value, *score.interval]
            rank, difference = each.ranks[measure], each.differences[measure]
            yield [task.name, each.entry.method, each.entry.division, leaks_label(each.entry, task.name), measure,
                   *("" if math.isnan(number) else f"{number:.6g}" for number in numbers),
                   *([""] * 3 if rank is None else map(str, rank)),
                   *([""] * 3 if difference is None else
                     ["" if math.isnan(number) else f"{number:.6g}" for number in difference]), digest]


def cells_of(task: Task, found: Sequence[Ranked]) -> list[list[str]]:
    """The table of a task, its head first."""
    measures = MEASURES[task.track]
    lead = next(iter(measures))
    shown = {name: each for name, each in measures.items() if any(not math.isnan(row.scores[name].value)
                                                                   for row in found)}
    table = [["entry", "rank", *(each.title for each in shown.values()),
              f"{measures[lead].title} − {REFERENCES[task.track]}", "division", "leaks",
              *(["decided on"] if task.track == "end" else [])]]
    for row in found:
        rank, difference = row.ranks[lead], row.differences[lead]
        digits = measures[lead].digits
        table.append([
            row.entry.method, "–" if rank is None else _rank_text(rank),
            *(_number_text(row.scores[name].value, each.digits) for name, each in shown.items()),
            "" if difference is None else
            f"{difference[0]:+.{digits}f} ({difference[1]:+.{digits}f} to {difference[2]:+.{digits}f})",
            row.entry.division, leaks_label(row.entry, task.name),
            *([_machine(row.entry, task)] if task.track == "end" else [])])
    return table


def _machine(entry: Entry, task: Task) -> str:
    found = read_system(entry.file(task.name))
    return f"{found['cores']} cores, {found['processor']}"


def _rank_text(rank: tuple[int, int, int]) -> str:
    return f"{rank[0]} ({rank[1]} to {rank[2]})" if rank[1] != rank[2] else f"{rank[0]}"


def _number_text(value: float, digits: int) -> str:
    return "" if math.isnan(value) else f"{value:.{digits}f}"


def build(tasks: Sequence[Task], folder: Path) -> dict[str, str]:
    """The board's text by suffix: md, csv, html. A refused submission raises ValueError."""
    of = {entry.method: entry for entry in entries(folder)}
    words = (f"Version {VERSION} of the benchmark. Rank: by the first measure, with the 95 % interval over draws that "
             "all entries share: of owners (predict), of blocks of time (queue), of arrangements (place, end). Entries "
             "whose intervals overlap are not told apart. “oracle” knows the future and has no rank. The CSV file has "
             "the interval, the rank and the difference of each measure. Times of decisions have no rank: each is of "
             "its own machine.")
    text, page, file = [f"{words}\n"], [f"<p>{words}</p>"], io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(COLUMNS)
    for task in tasks:
        scores = {name: checked_scores(entry, task) for name, entry in of.items() if task.name in entry.tasks}
        if not scores:
            continue
        found = ranked(task, scores, of)
        writer.writerows(rows_of(task, found))
        table = cells_of(task, found)
        text += [f"## {task.name}\n", f"{task.about}\n", *("| " + " | ".join(row) + " |" for row in table[:1]),
                 "|---" + "|---:" * (len(table[0]) - 1) + "|", *("| " + " | ".join(row) + " |" for row in table[1:]),
                 ""]
        page += [f"<h2>{html.escape(task.name)}</h2><p>{html.escape(task.about)}</p><table>",
                 *(f"<tr>{''.join(f'<{tag}>{html.escape(cell)}</{tag}>' for cell in row)}</tr>"
                   for tag, rows in (("th", table[:1]), ("td", table[1:])) for row in rows), "</table>"]
    title = "Board of the lifetime benchmark"
    return {"md": f"# {title}\n\n" + "\n".join(text), "csv": file.getvalue(),
            "html": f'<!doctype html>\n<html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}'
                    f"</style><h1>{title}</h1>\n" + "\n".join(page) + "\n</html>\n"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the board."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", choices=("lite", "full"), default="lite")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--out", type=Path, default=BOARD)
    options = parser.parse_args(arguments)
    tasks = [task for task in map(load_task, task_names()) if task.is_lite == (options.tasks == "lite")]
    try:
        texts = build(tasks, options.results)
    except ValueError as error:
        print(f"refused: {error}", file=sys.stderr)
        return 1
    options.out.mkdir(parents=True, exist_ok=True)
    for suffix, text in texts.items():
        (options.out / f"{options.tasks}.{suffix}").write_text(text, "utf-8")
    print(f"{options.out / options.tasks}.md, .csv, .html")
    return 0


if __name__ == "__main__":
    sys.exit(main())
