"""What Sojourn does under faults: `python -m benchmarks.faults` kills, overtakes and starves it, then looks.

Writes its tries as JSON, and from that the table of docs/reliability.md. A sweep is spread over its run's events, so a
budget that ends early leaves a coarser one. `--short` is what the tests run.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import MappingProxyType

from benchmarks.faults.after_decisions import killed_decided_cleaning, killed_rollback, killed_usage_training
from benchmarks.faults.damage import damaged_caches, small_disk
from benchmarks.faults.hostile import bomb, handles, killed_server
from benchmarks.faults.launcher import launcher
from benchmarks.faults.lost_servers import lost_server
from benchmarks.faults.monitors import killed_monitor
from benchmarks.faults.outlier import outlier
from benchmarks.faults.overlaps import at_once, held_database, overtaken, two_hosts
from benchmarks.faults.report import page
from benchmarks.faults.restarts import killed_admission, killed_log, killed_snapshot
from benchmarks.faults.schedules import killed_scheduled_run, never_fires, restarted_prefect, two_schedules
from benchmarks.faults.secrets import password
from benchmarks.faults.stores import clock_back, full_disk_cleaning, killed_cleaning
from benchmarks.faults.sweeps import full_disk, killed_compare, killed_first_run, killed_pull, killed_retrain
from benchmarks.faults.tries import Bench, Row, Try
from benchmarks.faults.workers import killed_worker

ROWS: Mapping[str, Row] = MappingProxyType({
    "outlier": outlier,
    "handles": handles,
    "bomb": bomb,
    "password": password,
    "overtaken": overtaken,
    "held-database": held_database,
    "small-disk": small_disk,
    "killed-server": killed_server,
    "clock-back": clock_back,
    "lost-server": lost_server,
    "killed-worker": killed_worker,
    "never-fires": never_fires,
    "two-schedules": two_schedules,
    "killed-scheduled-run": killed_scheduled_run,
    "restarted-prefect": restarted_prefect,
    "two-hosts": two_hosts,
    "at-once": at_once,
    "damaged-caches": damaged_caches,
    "killed-pull": killed_pull,
    "killed-snapshot": killed_snapshot,
    "killed-log": killed_log,
    "killed-admission": killed_admission,
    "killed-rollback": killed_rollback,
    "killed-decided-cleaning": killed_decided_cleaning,
    "killed-usage-training": killed_usage_training,
    "killed-compare": killed_compare,
    "killed-monitor": killed_monitor,
    "full-disk": full_disk,
    "killed-cleaning": killed_cleaning,
    "full-disk-cleaning": full_disk_cleaning,
    "killed-first-run": killed_first_run,
    "killed-retrain": killed_retrain,
})
"""The sweeps stand last: what the others leave of the budget is theirs."""
KEPT = Path(__file__).parent / "faults.json"
"""The tries that docs/reliability.md is made of."""
SHORT = ("bomb", "handles", "killed-retrain")
SHORT_STEP = 40
"""Of 116 events 3, and some of the promotion: a minute and a half on 2 free cores."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=tuple(ROWS))
    parser.add_argument("--short", action="store_true", help=f"only {', '.join(SHORT)}, of a sweep some events")
    parser.add_argument("--step", type=int, default=1, help="of a sweep's events every so many are tried")
    parser.add_argument("--budget-s", type=float, default=3_600.0, help="shared evenly by the rows that are left")
    parser.add_argument("--json", type=Path, default=KEPT, help="where the tries are written")
    parser.add_argument("--page", type=Path, help="Markdown page to write from all tries in the JSON file")
    parser.add_argument("--no-run", action="store_true", help="only write the page")
    asked = parser.parse_args()
    names = SHORT if asked.short else tuple(asked.rows)
    tries = read_tries(asked.json)
    if not asked.no_run:
        _run(names, asked.step if not asked.short else SHORT_STEP, asked.budget_s, tries, asked.json)
    if asked.page is not None:
        asked.page.write_text(page_of(tries))
    every = [each for of_row in tries.values() for each in of_row]
    n_failed = sum(bool(each.problems) for each in every)
    print(f"{len(every)} tries, {n_failed} with problems")
    return 1 if n_failed else 0


def page_of(tries: Mapping[str, Sequence[Try]]) -> str:
    """docs/reliability.md, made of the tries of each row."""
    return page({_label(name): tries.get(name, ()) for name in ROWS})


def _label(name: str) -> str:
    return (ROWS[name].__doc__ or name).splitlines()[0]


def read_tries(file: Path) -> dict[str, list[Try]]:
    """The tries of each row that a file holds; none where there is no file."""
    if not file.is_file():
        return {}
    return {name: [Try(**{**each, "problems": tuple(each["problems"])}) for each in of_row]
            for name, of_row in json.loads(file.read_text()).items()}


def _run(names: Sequence[str], step: int, budget_s: float, tries: dict[str, list[Try]], file: Path) -> None:
    """Make the tries of the named rows; each row takes the place of what the file held of it."""
    ends = time.monotonic() + budget_s
    with tempfile.TemporaryDirectory(prefix="faults-") as folder, launcher(Path(folder)) as started:
        bench = Bench(started, Path(folder), step=step)
        for idx, name in enumerate(names):
            now = time.monotonic()
            bench.deadline = now + (ends - now) / (len(names) - idx)
            tries[name] = []
            for made in ROWS[name](bench):
                n_looks, n_loaded = bench.taken_looks()
                n_decisions, n_kept = bench.taken_decisions()
                each = replace(made, n_looks=n_looks, n_loaded=n_loaded, n_decisions=n_decisions, n_kept=n_kept)
                tries[name].append(each)
                print(f"{'✗' if each.problems else '✓'} {name}: {each.detail} ({each.seconds:.0f} s)"
                      f"{''.join(f'{chr(10)}    {problem}' for problem in each.problems)}", flush=True)
                file.write_text(_document(tries))


def _document(tries: Mapping[str, Sequence[Try]]) -> str:
    """JSON with a line for each try, in the order of the rows."""
    rows = [f'"{name}": [\n' + ",\n".join(f" {json.dumps(asdict(one))}" for one in tries[name]) + "\n]"
            for name in ROWS if name in tries]
    return "{\n" + ",\n".join(rows) + "\n}\n"


if __name__ == "__main__":
    sys.exit(main())
