"""How large the product is, beside its budget: `make size` prints it, CI fails if a figure is above its budget.

A product file is a file in Python or C of the five parts or of `src/sojourn`; tests, benchmarks and `bench` are no
product. A budget is the size of today. It only falls, but for what is new by design: queues of parallel jobs and
families that learn as requests end, in Python and in C, raised it by 13 files and 4,465 lines; queues with priorities
and limits, hosts, and a week's schedule as a picture by 305 lines, Kueue's workloads by 155; backfilling by chance by
175; replays in pieces by a file and 275; what stands beside a real cluster (answers over HTTP, the watcher, the dry
run, costs of evictions and Karpenter's `Balanced`) by 10 files and 2,640 lines; three readers of public traces by 3
files and 661 lines; the core in C of exported models and of the extension, and the owner history in C, by 10 files and
3,620 lines, of which 8 files and 3,266 lines are C; the loops of a day (help without imports, the kept answer of a
second run, fits at once) by 2 files and 400 lines; the clock in a log, and what a door refuses at its start, by 18;
the rival without lifetimes beside every gain, and pieces for migrations, by 110 lines; a lighter first run by 22; loops
that compile in up to a quarter less time by 72; exits of hosts that read only what may have changed by 36; what
the answer of a queue says of its log, and words that no table breaks, by 40; curves in C in
0.7 of the time by 22.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sojourn.source_closure import installed

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("features", "models", "serving", "simulator", "flows")
OPENING = "sojourn.flows.versions.promotion"
"""The file whose `open_store` every job calls."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A size and the most that it may be; None = no bound."""

    name: str
    size: int
    budget: int | None = None


def files(part: str) -> list[Path]:
    """The files in Python and C of a part, without caches."""
    return sorted(path for path in (ROOT / part).rglob("*.*")
                  if path.suffix in {".py", ".c", ".h"} and "__pycache__" not in path.parts)


def n_lines(paths: list[Path]) -> int:
    """Lines of text, empty ones too."""
    return sum(len(path.read_text("utf-8").splitlines()) for path in paths)


def figures() -> Iterator[Figure]:
    """The sizes with their budgets, in the order in which they are printed."""
    of = {part: files(part) for part in PARTS}
    product = [path for paths in of.values() for path in paths] + sorted((ROOT / "src/sojourn").glob("*.py"))
    yield Figure("product files", len(product), 388)
    yield Figure("product lines", n_lines(product), 89_150)
    for part, paths in of.items():
        yield Figure(f"{part} files", len(paths), 87 if part == "flows" else None)
        yield Figure(f"{part} lines", n_lines(paths), 20_660 if part == "flows" else None)
    for part, budget in (("flows", 5), ("serving", 8)):
        yield Figure(f"files at the top of {part}", len(list((ROOT / part).glob("*.py"))) - 1, budget)
    n_short = sum(n_lines([path]) < 60 for path in product if path.name != "__init__.py")
    yield Figure("files under 60 lines", n_short, 15)
    yield Figure("lines of the longest file", max(n_lines([path]) for path in product), 730)
    closure = installed().closure(OPENING).values()
    yield Figure("lines behind opening a store", sum(source.count(b"\n") for source in closure), 3_100)


def main() -> int:
    """Print the table; 1 if a figure is above its budget."""
    print(f"{'':34}{'now':>8}{'budget':>8}")
    over = 0
    for figure in figures():
        is_over = figure.budget is not None and figure.size > figure.budget
        over += is_over
        budget = "" if figure.budget is None else figure.budget
        print(f"{figure.name:34}{figure.size:>8}{budget:>8}{'  above' if is_over else ''}")
    return int(over > 0)


if __name__ == "__main__":
    sys.exit(main())
