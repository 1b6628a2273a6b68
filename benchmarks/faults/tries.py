"""One try of one fault, and the store that tries are made on."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.launcher import Ended, Launcher

SETTINGS = """\
families = ["km"]
simulate = false
n_threads = 1
n_requests = 1000
"""
FIRST, KILLED, NEXT = 1, 2, 3
"""Seeds of the run that makes the template's champion, of the run that a fault meets, and of the run after it: their
traces differ, so that one's bundle is not taken for another's."""


@dataclass(frozen=True, slots=True)
class Try:
    """One try.

    problems: what did not hold after it; none where it went as it should.
    n_events: of a sweep, the events of the run that could be tried; 0 = no sweep. n_looks: how often the champion was
    loaded meanwhile, and n_loaded: how often that went well. n_decisions: what a person had decided, and n_kept: how
    much of it still held at the end of the try.
    """

    detail: str
    problems: tuple[str, ...]
    seconds: float
    n_events: int = 0
    n_looks: int = 0
    n_loaded: int = 0
    n_decisions: int = 0
    n_kept: int = 0


@dataclass
class Bench:
    """Where tries are made: one store, always at the same place, as MLflow writes down absolute paths."""

    launcher: Launcher
    folder: Path
    deadline: float = float("inf")
    step: int = 1
    """Of a sweep's events every so many are tried."""
    n_looks: int = 0
    n_loaded: int = 0
    """Looks at the champion since the last `taken_looks`, and those of them that loaded it."""
    n_decisions: int = 0
    n_kept: int = 0
    """Decisions of a person since the last `taken_decisions`, and those of them that still hold."""

    def taken_looks(self) -> tuple[int, int]:
        """Looks since the last call, and how many of them loaded the champion."""
        found = self.n_looks, self.n_loaded
        self.n_looks = self.n_loaded = 0
        return found

    def taken_decisions(self) -> tuple[int, int]:
        """A person's decisions since the last call, and how many of them still hold."""
        found = self.n_decisions, self.n_kept
        self.n_decisions = self.n_kept = 0
        return found

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def settings(self, seed: int, *more: str) -> Path:
        """The settings of a small full run, and further lines of TOML."""
        file = self.folder / "settings.toml"
        file.write_text("\n".join((f"{SETTINGS}seed = {seed}", *more, "")))
        return file

    def retrain(self, seed: int, *more: str) -> list[str]:
        """The command of a small full run, which trains also where a finished one stands. more: lines of TOML."""
        file = self.settings(seed, *more)
        return ["train", "--config", str(file), "--store", str(self.store), "--seed", str(seed), "--again"]

    def compare(self) -> list[str]:
        """The command of a tiny comparison."""
        return ["gain", "--n-requests", "1000", "--n-seeds", "1", "--policy", "best-fit", "--predictor", "oracle",
                "--n-workers", "1", "--store", str(self.store)]

    def empty(self) -> None:
        """There is no store."""
        shutil.rmtree(self.store, ignore_errors=True)

    def promoted(self) -> None:
        """The store has a champion, and all caches that the seeds need."""
        template = self.folder / "template"
        if not template.is_dir():
            self.empty()
            for seed in (KILLED, NEXT, FIRST):
                ended = self.launcher.run(self.retrain(seed), self.store)
                if ended.code != 0:
                    raise RuntimeError(f"a run without any fault must end with exit code 0, got {ended.code}: "
                                       f"{ended.printed[-2_000:]}")
            shutil.copytree(self.store, template)
        self.empty()
        shutil.copytree(template, self.store)

    def after(self, seed: int = NEXT, *, is_promoting: bool = False) -> list[str]:
        """What does not hold once a full run has followed; one that promotes would publish its own bundle anyway."""
        ended = self.launcher.run(self.retrain(seed), self.store, is_promoting=is_promoting)
        if ended.code != 0:
            return [f"the next run ends with exit code {ended.code}: {ended.last_line}"]
        return self.unsound()

    def unsound(self) -> list[str]:
        """What does not hold of the store, and of the processes, at rest."""
        from benchmarks.faults.soundness import problems

        return self.asked(lambda: problems(self.store)) + self.left_behind()

    def left_behind(self) -> list[str]:
        return [f"a process is left: {line}" for line in self.launcher.left_behind()]

    def asked(self, question: Callable[[], Sequence[str]]) -> list[str]:
        """The answer of a function that is asked in a process of its own, so that this one starts no threads."""
        answer = self.folder / "answer.json"
        answer.unlink(missing_ok=True)
        ended = self.launcher.call(lambda: answer.write_text(json.dumps(list(question())))).wait()
        if ended.code != 0:
            return [f"the check fails: {ended.last_line}"]
        found: list[str] = json.loads(answer.read_text())
        return found

    def is_over(self) -> bool:
        return time.monotonic() > self.deadline


def plain_failure(ended: Ended, what: str) -> list[str]:
    """A run that cannot do its work says one line and exits with 2; anything else is a problem."""
    if ended.code == 0:
        return []
    problems = []
    if ended.code != 2:
        problems.append(f"{what} ends with exit code {ended.code}: {ended.last_line}")
    if "Traceback" in ended.printed:
        problems.append(f"{what} prints a traceback: {ended.last_line}")
    return problems


def timed(detail: str, problems: Callable[[], Sequence[str]], n_events: int = 0) -> Try:
    """Make one try."""
    started = time.monotonic()
    found = tuple(problems())
    return Try(detail, found, time.monotonic() - started, n_events)


Row = Callable[[Bench], Iterator[Try]]
"""Makes the tries of one fault, which the first line of its docstring names."""
