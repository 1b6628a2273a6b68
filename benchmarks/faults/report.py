"""The page of docs/reliability.md: of each fault how often it was tried, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from benchmarks.faults.tries import Try

_HEAD = """\
# Reliability

What Sojourn does when it is killed, overtaken, starved of disk, or fed what it should refuse. `make faults` writes this
page. After each fault one more full run must end with exit code 0; then the registry's champion, the bytes that its
gates saw and the folder that is served must be the same, a predictor must load it, no MLflow run may be RUNNING, and no
temporary file and no process may be left. The database must be whole. A sweep ends the process, as `kill -9` does,
before a statement of the database or a change of a file under the store.

| fault | tries | as it should | what came of the others |
| --- | ---: | ---: | --- |
"""


def page(tries: Sequence[Try]) -> str:
    """Markdown with a row for each fault."""
    return _HEAD + "".join(_line(row, [each for each in tries if each.row == row])
                           for row in dict.fromkeys(each.row for each in tries))


def _line(row: str, tries: Sequence[Try]) -> str:
    n_good = sum(not each.problems for each in tries)
    kinds = Counter(_kind(problem) for each in tries for problem in dict.fromkeys(each.problems))
    others = "; ".join(f"{n}x {kind}" for kind, n in kinds.most_common(4)).replace("|", "\\|") or "-"
    return f"| {row} | {len(tries)} | {n_good} | {others} |\n"


def _kind(problem: str) -> str:
    """A problem without what differs from try to try."""
    kind = problem.split(": ")[0] if problem.startswith(("left behind", "a process is left")) else problem
    return kind if len(kind) <= 110 else f"{kind[:107]}..."
