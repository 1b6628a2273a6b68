"""The page of docs/reliability.md: of each fault how often it was tried, and the result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.faults.tries import Try

_HEAD = """\
# Reliability

What Sojourn does when a run is killed, when two runs overlap, when the disk is full, or when the input is bad.
`make faults` writes this page (`benchmarks/faults/`).

After each fault, one more full run must end with exit code 0. Then all of these must hold:

- Each version holds the bundle that its gates judged, by its hash.
- The served folder holds the champion's bytes, and a predictor loads it.
- In rows with looks, a process loads the champion over and over from before the fault to the end of the try. Each of
  these looks must succeed.
- In rows with decisions, what a person decided still holds: the version of a rollback is champion, the one that was
  left keeps its mark and its reason, one run records it, and a retrain that would promote the same bytes does not.
  Of an admission, the decisions are the answers that its caller had.
- No MLflow run is RUNNING. No temporary file and no process is left. The database is whole.
- A run that cannot do its work prints one line and ends with exit code 2.

A model has one writer: a second retrain of the same model and store ends with exit code 2 and one line that names the
process, host and time of the first ([the store's folder](store_folder.md#locks)). Comparisons, checks, rollbacks and
cleanings run beside it.

A sweep first records every event of a run: each statement and commit of MLflow's database, and each change that Python
makes to a file under the store. Each try then ends a new run before another one of these events, as `kill -9` does. The
numbers of tries and events show how fine the sweep was. The tries are spread over the whole run, with more of them in
its promotion. A run has 1,000 requests and the family `km`. All gates of a killed run hold, so each run would promote.

Schedules run each minute. MLflow's server and the Dask cluster of two processes are real ones on this machine.
`benchmarks/faults/faults.json` holds each try.

| fault | tries | events | passed | looks at the champion that loaded it | decisions kept | problems of the others |
| --- | ---: | ---: | ---: | ---: | ---: | --- |
"""


def page(tries: Mapping[str, Sequence[Try]]) -> str:
    """Markdown with a row for each fault, also for one that was not tried."""
    return _HEAD + "".join(_line(fault, of_row) for fault, of_row in tries.items())


def _line(fault: str, tries: Sequence[Try]) -> str:
    n_good = sum(not each.problems for each in tries)
    n_events = max((each.n_events for each in tries), default=0)
    kinds = Counter(_kind(problem) for each in tries for problem in dict.fromkeys(each.problems))
    others = "; ".join(f"{n}x {kind}" for kind, n in kinds.most_common(4)) or "-"
    n_looks, n_loaded = sum(each.n_looks for each in tries), sum(each.n_loaded for each in tries)
    looks = f"{n_loaded:,} of {n_looks:,}" if n_looks else "-"
    n_decisions, n_kept = sum(each.n_decisions for each in tries), sum(each.n_kept for each in tries)
    kept = f"{n_kept:,} of {n_decisions:,}" if n_decisions else "-"
    return (f"| {_cell(fault)} | {len(tries)} | {f'{n_events:,}' if n_events else '-'} | {n_good} | {looks} | {kept} | "
            f"{_cell(others) if tries else 'not tried'} |\n")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _kind(problem: str) -> str:
    """A problem without what differs from try to try."""
    kind = problem.split(": ")[0] if problem.startswith(("left behind", "a process is left")) else problem
    return kind if len(kind) <= 110 else f"{kind[:107]}..."
