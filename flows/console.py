"""The terminal: progress of long work, one bar a stage, which stays with its time; and tables that fit its width."""

from __future__ import annotations

import math
import re
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Column, Table
from rich.text import Text

from sojourn.flows.process import end_quietly, show_what_can_be_shown

Report = Callable[[int, int], None]
"""Called with (done, total) as the work goes on."""
WIDTH = 80
"""Columns of a line that no terminal reads."""
_BETWEEN = 3
"""Characters that rich adds to each column."""
_bar = threading.Lock()
"""Of the stage that shows a bar."""


class _Console(Console):
    """Rich's own one ends with code 1 where its output was closed."""

    def on_broken_pipe(self) -> None:
        end_quietly()


show_what_can_be_shown()
console = _Console(highlight=False) if sys.stdout.isatty() else _Console(highlight=False, width=WIDTH)


class FittedTable(Table):
    """A table that fits the width it is printed at: its least columns are left out, and its caption names them.

    titles: unique; a line break is kept. The first n_text columns are words, the others figures at the right.
    least: titles of columns that may be left out, the first of them first; by default, from the right, all but the
    words and the first figure. wrapped: titles of columns whose cells may take several lines.
    """

    def __init__(self, title: str | Text, titles: Sequence[str], caption: str | Text = "", *, n_text: int = 1,
                 least: Sequence[str] | None = None, wrapped: Sequence[str] = ()) -> None:
        super().__init__(title=title, title_justify="left", caption=caption or None, caption_justify="left")
        self.least = list(reversed(titles[n_text + 1:])) if least is None else list(least)
        for k, name in enumerate(titles):
            self.add_column(name, justify="left" if k < n_text else "right", no_wrap=name not in wrapped,
                            overflow="fold")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        fitted, left_out = copy(self), []
        for title in self.least:
            if sum(_least_width(column) + _BETWEEN for column in fitted.columns) + 1 <= options.max_width:
                break
            fitted.columns = [column for column in fitted.columns if column.header != title]
            left_out.append(title)
        most, least = ([of(column) for column in fitted.columns] for of in (_most_width, _least_width))
        share = (options.max_width - 1 - sum(least) - _BETWEEN * len(least)) / max(sum(most) - sum(least), 1)
        widths = [low + int(share * (high - low)) if 0.0 <= share < 1.0 else None
                  for low, high in zip(least, most, strict=True)]
        fitted.columns = [replace(column, _index=k, width=widths[k]) for k, column in enumerate(fitted.columns)]
        if left_out:
            in_order = [str(column.header) for column in self.columns if column.header in left_out]
            words = Text(left_out_words(in_order, options.max_width))
            fitted.caption = Text("\n").join([*([_text(self.caption)] if self.caption else []), words])
        yield from Table.__rich_console__(fitted, console, options)


def left_out_words(titles: Sequence[str], width: int) -> str:
    r"""Which columns a table of this width lacks.

    >>> left_out_words(["gap\nclosed %", "events/s"], 80)
    'Not shown at 80 characters a line: gap closed %, events/s.'
    """
    return f"Not shown at {width} characters a line: {', '.join(title.replace(chr(10), ' ') for title in titles)}."


def _text(cell: object) -> Text:
    return cell if isinstance(cell, Text) else Text.from_markup(str(cell))


def _most_width(column: Column) -> int:
    """Characters of a column whose cells take no more lines than they are given."""
    lines = [line for cell in (column.header, *column.cells) for line in _text(cell).plain.split("\n")]
    return max(map(cell_len, lines), default=1)


def _least_width(column: Column) -> int:
    """Characters that a column cannot do without."""
    words = [word for cell in (column.header, *column.cells) for word in _text(cell).plain.split()]
    return _most_width(column) if column.no_wrap else max(map(cell_len, words), default=1)


@contextmanager
def leaving_stdout(is_for_a_program: bool) -> Iterator[None]:
    """Print to stderr meanwhile, if what goes to stdout is for a program."""
    console.stderr = is_for_a_program
    try:
        yield
    finally:
        console.stderr = False


@contextmanager
def stage(title: str) -> Iterator[Report]:
    """Show a bar while the stage runs; then one line with how long it took, in seconds. Of several at once, one bar."""
    started = time.perf_counter()
    has_bar = console.is_terminal and _bar.acquire(blocking=False)
    try:
        with Progress(TextColumn("[bold]{task.description:<24}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
                      TimeElapsedColumn(), console=console, transient=True, disable=not has_bar) as progress:
            task = progress.add_task(title, total=None)
            yield lambda done, total: progress.update(task, completed=done, total=total)
    finally:
        if has_bar:
            _bar.release()
    console.print(f"[green]✓[/] {title:<28}{time.perf_counter() - started:>7.1f} s")


def tell_doubts(lines: Iterable[str]) -> None:
    """Print those lines of a read report that say how many rows were refused, or ask for a look at something."""
    for line in lines:
        if "--horizon-s" in line or line.startswith(("refused: ", "check: ")):
            console.print(f"[yellow]![/] {escape(line)}")


def fitted(lines: Sequence[str], width: int) -> list[str]:
    """Lines of a table up to the first empty line, cut at the width, then prose, wrapped; commands stay whole.

    >>> fitted(["a table of words", "", "  - prose of words", "next     sojourn train FILE"], 13)
    ['a table of...', '', '  - prose of', '    words', 'next     sojourn train FILE']
    """
    found: list[str] = []
    for line in lines:
        if len(line) <= width or "sojourn " in line or "\n" in line:
            found.append(line)
        elif "" not in found:
            found.append(f"{line[:width - 3]}...")
        else:
            indent = re.match(r"\s*(?:- |\d[\d,]*  |[a-z]+ {2,})?", line)
            found += textwrap.wrap(line, width, subsequent_indent=" " * (indent.end() if indent else 0),
                                   break_long_words=False, break_on_hyphens=False)
    return found


def duration(seconds: float) -> str:
    """A time as a person says it: two or three digits and a unit.

    >>> [duration(s) for s in (0.4, 45, 600, 5_400, 93_600, 864_000)]
    ['0.4 s', '45 s', '10 min', '1.5 h', '26 h', '10 d']
    """
    for unit, size, until_s in (("s", 1.0, 120.0), ("min", 60.0, 5_400.0), ("h", 3_600.0, 172_800.0),
                                ("d", 86_400.0, math.inf)):  # fmt: skip
        if seconds < until_s:
            amount = seconds / size
            return f"{amount:.1f}".removesuffix(".0") + f" {unit}" if amount < 10.0 else f"{amount:.0f} {unit}"
    raise ValueError(f"seconds must be a finite number, got {seconds!r}")
