"""Progress of long work on the terminal: one bar a stage, which stays with its time when the stage is done."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from sojourn.flows.process import end_quietly, show_what_can_be_shown

Report = Callable[[int, int], None]
"""Called with (done, total) as the work goes on."""


class _Console(Console):
    """Rich's own one ends with code 1 where its output was closed."""

    def on_broken_pipe(self) -> None:
        end_quietly()


show_what_can_be_shown()
console = _Console(highlight=False) if sys.stdout.isatty() else _Console(highlight=False, width=120)


@contextmanager
def stage(title: str) -> Iterator[Report]:
    """Show a bar while the stage runs; then one line with how long it took, in seconds."""
    started = time.perf_counter()
    with Progress(TextColumn("[bold]{task.description:<24}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"),
                  TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)
    console.print(f"[green]✓[/] {title:<28}{time.perf_counter() - started:>7.1f} s")


def tell_doubts(lines: Iterable[str]) -> None:
    """Print those lines of a read report that say how many rows were refused, or ask for a look at something."""
    for line in lines:
        if "--horizon" in line or line.startswith(("refused: ", "check: ")):
            console.print(f"[yellow]![/] {escape(line)}", soft_wrap=True)


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
