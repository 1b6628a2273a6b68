"""A run's verdict: its gates, what became of its version, and how both are printed.

And the kept answer: what a second run prints if nothing has changed. A file in the store holds it beside the hashes of
all that decides it, so that a command finds it without MLflow and Prefect, whose start takes most of a second run.
The answer is that of `job.finished_run`; if anything differs, the run asks that.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape

from sojourn.flows import QUIET
from sojourn.flows.console import console, fitted, tell_doubts
from sojourn.flows.store.caches import note_read, parts_file, source_hash
from sojourn.flows.store.lock import model_lock
from sojourn.publishing import whole_file

if TYPE_CHECKING:
    from sojourn.flows.settings.retrain import RetrainConfig

ROOMS = ("features", "models", "serving", "simulator", "flows")
"""The code that decides a run."""
_ANSWERS = "answers"
"""The folder in a store."""
_OTHER_SERVER = {"prefect.toml": b"", ".env": b"PREFECT_", "pyproject.toml": b"[tool.prefect"}
"""Files of the working folder in which Prefect looks for settings, and what says that there are some."""


class Reason(StrEnum):
    """Why a gate failed, as far as it decides the next step."""

    FEW_ENDS = "few ends"
    LEVEL = "level"
    NOT_SIMULATED = "not simulated"
    NO_EFFECT = "no effect"
    PLACEMENT_NOT_SHOWN = "placement not shown"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Gate:
    """One condition of promotion, whether it holds, the finding in words. reason: of a failure.

    Refused: a name with characters that MLflow drops from a tag, since nobody would find it again.
    """

    name: str
    is_passed: bool
    finding: str
    reason: Reason = Reason.OTHER

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[\w \-./:]+", self.name):
            raise ValueError(f"name of a gate must be letters, digits, spaces and - . / : _, got {self.name!r}")


@dataclass(frozen=True, slots=True)
class Promotion:
    """The version with the candidate's bytes, its alias, the gates. is_unchanged: already champion.

    next_steps: of a challenger, a sentence each.
    """

    name: str
    version: int
    alias: str
    gates: tuple[Gate, ...]
    is_unchanged: bool = False
    next_steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """A finished run's result, which holds.

    left: why its version was rolled back, "" = it is champion or was not. ended: when that run ended. tables: as
    printed. report: of reading the trace. bundle: its folder. ui: the command of the MLflow UI.
    """

    promotion: Promotion
    is_champion: bool
    left: str
    ended: str
    tables: str
    report: str
    bundle: str
    ui: str


def print_answer(to: Console, answer: Answer) -> None:
    """Print the end of a run that had nothing to do: the finished run's output."""
    to.print(answer.tables, markup=False, soft_wrap=True)
    promotion = answer.promotion
    print_gates(to, promotion)
    state = f"stays {promotion.alias}"
    if answer.left and not answer.is_champion:
        state = f"was rolled back ({answer.left}) and stays so"
    to.print(f"\nnothing has changed since the run that ended {answer.ended}: trace, code and settings are the same "
             "(--again trains all the same)")
    to.print(f"{promotion.name} version {promotion.version} {state}", markup=False, soft_wrap=True)
    print_places(to, promotion, answer.bundle, answer.ui)


def print_gates(to: Console, promotion: Promotion) -> None:
    """Print each gate with its finding."""
    to.print()
    for gate in promotion.gates:
        mark = "[green]✓[/]" if gate.is_passed else "[red]✗[/]"
        to.print(f"{mark} {escape(gate.name)}: {escape(gate.finding)}")


def print_places(to: Console, promotion: Promotion, bundle: str, ui: str) -> None:
    """Print where the results are, and a challenger's next steps."""
    to.print(f"bundle     {bundle}", soft_wrap=True)
    to.print(f"MLflow UI  {ui}", soft_wrap=True)
    lines = [f"{'' if idx else 'next':<11}{step}" for idx, step in enumerate(promotion.next_steps)]
    for line in fitted(["", *lines], to.width)[1:]:
        to.print(line, markup=False, soft_wrap=True)


def keep_answer(config: RetrainConfig, answer: Answer, runs: Iterable[str]) -> None:
    """Keep the answer of `job.finished_run` for `kept_answer`. runs: those of which it needs the artifacts."""
    if not _can_be_kept(config):
        return
    names = sorted(set(runs))
    document = {"inputs": _inputs(config), "runs": names, "store": _state(config, names), "answer": asdict(answer)}
    with whole_file(_file(config)) as temporary:
        temporary.write_text(json.dumps([_hash(document), document], indent=1) + "\n")


def kept_answer(config: RetrainConfig) -> Answer | None:
    """The answer that a run of these settings would give without training; None if the run has to find out.

    None if anything differs that decides it: a setting, a file of the trace, the code, a library, the database of
    MLflow, the run's artifacts or the served bundle. None, too, for what only a query can tell, for another store than
    the default ones, and if Prefect's runs are kept elsewhere than in the store: there each run is to be seen.
    BlockingIOError if another process trains the model.
    """
    file = _file(config)
    if config.again or not file.is_file() or not _can_be_kept(config) or _has_other_server():
        return None
    with model_lock(config.store, config.registered_name):
        try:
            sha256, document = json.loads(file.read_text())
            if (sha256 != _hash(document) or document["inputs"] != _inputs(config)
                    or document["store"] != _state(config, document["runs"])):
                return None
            given = document["answer"]
            gates = tuple(Gate(**{**gate, "reason": Reason(gate["reason"])}) for gate in given["promotion"]["gates"])
            steps = tuple(given["promotion"]["next_steps"])
            promotion = Promotion(**{**given["promotion"], "gates": gates, "next_steps": steps})
            answer = Answer(**{**given, "promotion": promotion})
        except (OSError, ValueError, KeyError, TypeError):  # damaged
            return None
    note_read(parts_file(config.store, config.source.alone))
    tell_doubts(answer.report.splitlines())
    print_answer(console, answer)
    return answer


def _file(config: RetrainConfig) -> Path:
    return config.store / _ANSWERS / f"{config.registered_name}.json"


def _can_be_kept(config: RetrainConfig) -> bool:
    from sojourn.features.readers import READERS

    is_queried = config.reader in READERS and READERS[config.reader].is_queried
    return config.tracking_uri is None and config.artifacts is None and not is_queried


def _has_other_server() -> bool:
    """Whether the user says anything of Prefect."""
    if any(name.startswith("PREFECT_") and value != QUIET.get(name) for name, value in os.environ.items()):
        return True
    for name, sign in _OTHER_SERVER.items():
        with suppress(FileNotFoundError):
            if sign in Path(name).read_bytes():
                return True
    return False


def _inputs(config: RetrainConfig) -> str:
    """sha256 hex of settings, code with its libraries, and all files that are read for the trace."""
    files: list[Path] = []
    for trace in (config.trace, config.test):
        if trace is not None:
            files += _below(trace) + config.columns.files(trace)
    later = config.later_file
    files += [] if later is None else later.columns.files(later.file)
    return _hash([config.resolved(), str(config.store.absolute()), source_hash(*ROOMS), _digests(files)])


def _state(config: RetrainConfig, runs: Iterable[str]) -> str:
    """sha256 hex of what the answer says of the store: database, the runs' artifacts, served bundle, open orders."""
    store = config.store
    files = [*sorted(store.glob("mlflow.db*")), *_below(store / "bundles" / config.registered_name),
             *_below(store / "promotions"), *(path for run in runs for path in _below(store / "artifacts" / run))]
    return _hash(_digests(files))


def _below(place: Path) -> list[Path]:
    return [path for path in sorted(place.rglob("*")) if path.is_file()] if place.is_dir() else [place]


def _digests(files: Iterable[Path]) -> Mapping[str, str]:
    """sha256 hex by path; "" of a file that is not there."""
    found = {}
    for path in files:
        try:
            with path.open("rb") as stream:
                found[str(path)] = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError:
            found[str(path)] = ""
    return found


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
