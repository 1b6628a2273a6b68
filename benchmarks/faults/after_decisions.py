"""Rows that ask whether a person's decision survives: a rollback that is killed, and what is killed after one."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from functools import partial

from benchmarks.faults.injection import kill
from benchmarks.faults.soundness import NAME
from benchmarks.faults.stores import cleaning
from benchmarks.faults.sweeps import swept_over
from benchmarks.faults.tries import FIRST, Bench, Try

_TO, _LEFT, _WHY = 1, 3, "bad days"
"""The template's champion is version 3; a person decides that it is version 1."""
_USAGE = f"{NAME}-usage"


def killed_rollback(bench: Bench) -> Iterator[Try]:
    """kill -9 in a rollback; then a retrain on the data of the version that was left, and the same rollback again"""
    def after() -> list[str]:
        found = [] if _champion(bench) == _TO or _is_written(bench) else _rolled_back(bench)
        return found + _retrained(bench) + _rolled_back(bench) + bench.unsound() + _lost(bench)

    yield from swept_over(bench, bench.promoted, _rollback(bench), kill, after=after)


def killed_decided_cleaning(bench: Bench) -> Iterator[Try]:
    """kill -9 in a cleaning after a rollback; then a retrain on the data of the version that was left"""
    def after() -> list[str]:
        return _retrained(bench) + bench.unsound() + _lost(bench)

    yield from swept_over(bench, partial(_decided, bench), cleaning(bench), kill, after=after)


def killed_usage_training(bench: Bench) -> Iterator[Try]:
    """kill -9 in a training of a usage section after a rollback; the next training ends well"""
    sizes = [part for size in ("n_requests=1000", "n_usage=12", "days=8") for part in ("--set", size)]
    command = ["usage", "train", "made", "--usage-reader", "synthetic", *sizes, "--n-classes", "3", "--model-name",
               _USAGE, "--store", str(bench.store)]

    def after() -> list[str]:
        ended = bench.launcher.run(command, bench.store)
        found = [] if ended.code == 0 else [f"the next training ends with exit code {ended.code}: {ended.last_line}"]
        return found + bench.unsound() + bench.asked(partial(_usage_problems, bench)) + _lost(bench)

    yield from swept_over(bench, partial(_decided, bench), command, kill, after=after)


def _rollback(bench: Bench) -> list[str]:
    return ["model", "rollback", NAME, "--to", str(_TO), "--why", _WHY, "--store", str(bench.store)]


def _decided(bench: Bench) -> None:
    """The store has a champion that a person has chosen."""
    kept = bench.folder / "decided"
    if not kept.is_dir():
        bench.promoted()
        if problems := _rolled_back(bench):
            raise RuntimeError(problems[0])
        shutil.copytree(bench.store, kept)
    bench.empty()
    shutil.copytree(kept, bench.store)


def _rolled_back(bench: Bench) -> list[str]:
    ended = bench.launcher.run(_rollback(bench), bench.store)
    return [] if ended.code == 0 else [f"the rollback ends with exit code {ended.code}: {ended.last_line}"]


def _retrained(bench: Bench) -> list[str]:
    """A run whose bundle is, byte for byte, that of the version that was left, and which all gates but one let pass."""
    ended = bench.launcher.run(bench.retrain(FIRST), bench.store)
    return [] if ended.code == 0 else [f"the next run ends with exit code {ended.code}: {ended.last_line}"]


def _lost(bench: Bench) -> list[str]:
    """What does not hold of the person's decision; counts it."""
    problems = []
    if (champion := _champion(bench)) != _TO:
        problems.append(f"the decision is lost: the champion is version {champion}")
    why = _asked(bench, "SELECT value FROM model_version_tags WHERE name = ? AND version = ? AND key = 'rolled_back'",
                 NAME, _LEFT)
    if why != _WHY:
        problems.append(f"the decision is lost: the mark of version {_LEFT} says {why}")
    n_runs = _asked(bench, "SELECT count(*) FROM runs r JOIN tags t ON t.run_uuid = r.run_uuid WHERE t.key = 'kind' "
                    "AND t.value = 'rollback' AND r.status = 'FINISHED' AND r.lifecycle_stage = 'active'")
    if n_runs != 1:
        problems.append(f"{n_runs} runs record the decision")
    bench.n_decisions += 1
    bench.n_kept += not problems
    return problems


def _is_written(bench: Bench) -> bool:
    return any((bench.store / "promotions").glob("rollback-*.json"))


def _champion(bench: Bench) -> int:
    return int(_asked(bench, "SELECT version FROM registered_model_aliases WHERE name = ? AND alias = 'champion'",
                      NAME) or 0)


def _asked(bench: Bench, question: str, *values: str | int) -> str | int | None:
    """The first number or text that the store's database answers; None where there is none."""
    with closing(sqlite3.connect(bench.store / "mlflow.db")) as database:
        row = database.execute(question, values).fetchone()
    return None if row is None else row[0]


def _usage_problems(bench: Bench) -> list[str]:
    from sojourn.serving import BundleError
    from sojourn.serving.usage import load_usage

    try:
        load_usage(bench.store / "bundles" / _USAGE)
    except (BundleError, OSError) as error:
        return [f"the usage section cannot be loaded: {str(error)[:100]}"]
    return []
