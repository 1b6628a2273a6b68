"""The page of docs/reliability.md: of each fault how often it was tried, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.faults.tries import Try

_HEAD = """\
# Reliability

What Sojourn does when it is killed, overtaken, starved of disk, or fed what it should refuse. `make faults` writes this
page (`benchmarks/faults/`). After each fault one more full run must end with exit code 0. Then each
version must hold, by its hash, the bundle that its gates saw; the folder that is served must hold the champion's bytes,
and a predictor must load it. No MLflow run may be RUNNING, no temporary file and no process may be left, and the
database must be whole. A run that cannot do its work must say one line and end with exit code 2.

A sweep first writes down every event of a run: each statement and commit of MLflow's database, and each change of a
file under the store that Python makes. Then it ends a new run before one of these events, as `kill -9` does, and before
another in the next try. Tries beside events say how fine the sweep was. The tries
are spread over the whole run, more of them over its promotion. Runs are of 1,000 requests and of the family `km`; a
killed run's gates all hold, so that each promotes.

| fault | tries | events | as it should | what came of the others |
| --- | ---: | ---: | ---: | --- |
"""


def page(tries: Mapping[str, Sequence[Try]]) -> str:
    """Markdown with a row for each fault, also for one that was not tried."""
    return _HEAD + "".join(_line(fault, of_row) for fault, of_row in tries.items())


def _line(fault: str, tries: Sequence[Try]) -> str:
    n_good = sum(not each.problems for each in tries)
    n_events = max((each.n_events for each in tries), default=0)
    kinds = Counter(_kind(problem) for each in tries for problem in dict.fromkeys(each.problems))
    others = "; ".join(f"{n}x {kind}" for kind, n in kinds.most_common(4)) or "-"
    return (f"| {_cell(fault)} | {len(tries)} | {f'{n_events:,}' if n_events else '-'} | {n_good} | "
            f"{_cell(others) if tries else 'not tried'} |\n")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _kind(problem: str) -> str:
    """A problem without what differs from try to try."""
    kind = problem.split(": ")[0] if problem.startswith(("left behind", "a process is left")) else problem
    return kind if len(kind) <= 110 else f"{kind[:107]}..."
