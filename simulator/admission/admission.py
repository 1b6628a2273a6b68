"""Admission one job at a time, for a gateway: an answer to each offer, and a state that survives a restart.

The journal of an admission: a line for each answer, on disk before the answer is given; one process at a time.

The state of an admission on disk: numbers and text only, checked by their hashes.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from sojourn.inflated import inflated_bytes
from sojourn.publishing import naming, publish_files, sync
from sojourn.simulator.admission.admit import REASONS, cores_for
from sojourn.simulator.admission.jobs import MAX_TIME_S, AdmissionJobs, PowerProfile
from sojourn.simulator.whole_numbers import is_whole

N_NAME_MAX = 65_536
"""Of a job's name, characters: a line of the journal holds it."""


@dataclass(frozen=True, slots=True)
class OfferedJob:
    """A job to be decided on; whole seconds. name: for errors."""

    submission_s: int
    processing_s: int
    cores: int
    deadline_s: int
    name: str = "0"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a gateway tells the user.

    start_s, cores: when and where an accepted job runs; None and empty if it was rejected. reason: one of REASONS.
    counter_offer_s: the earliest deadline with which a rejected job would be accepted now; None = accepted, or no
    deadline would help.
    """

    is_accepted: bool
    start_s: int | None
    cores: tuple[int, ...]
    reason: str
    counter_offer_s: int | None


@dataclass(frozen=True, slots=True)
class Planned:
    """An accepted job that is not over: from when to when it has its cores. is_late: it ends after its deadline."""

    name: str
    start_s: int
    end_s: int
    cores: tuple[int, ...]
    deadline_s: int

    @property
    def is_late(self) -> bool:
        return self.end_s > self.deadline_s


class Admission:
    """The state of a machine that takes jobs with deadlines. May be called from several threads.

    n_cores, allocation and the other rules: as `cores_for`. It decides as `admit` does with the same jobs in the same
    order.

    >>> machine = Admission(1, "best-fit")
    >>> machine.offer(OfferedJob(0, 10, 1, 10))
    Answer(is_accepted=True, start_s=0, cores=(0,), reason='accepted', counter_offer_s=None)
    >>> machine.offer(OfferedJob(3, 10, 1, 15)).counter_offer_s
    20
    """

    def __init__(self, n_cores: int, allocation: str = "best-fit", *, is_backfilling: bool = False,
                 power: PowerProfile | None = None) -> None:
        self._cores = cores_for(n_cores, allocation, is_backfilling=is_backfilling, power=power)
        self.rules = AdmissionRules(n_cores, allocation, is_backfilling, power is not None)
        self.now_s, self.n_offered, self.n_accepted = 0, 0, 0
        self._lock = threading.Lock()
        self._jobs: list[Planned] = []
        self._journal: Journal | None = None

    def offer(self, job: OfferedJob) -> Answer:
        """Decides on a job; if it is accepted, its cores are taken.

        Refused with ValueError, without any effect: what AdmissionJobs refuses, a submission before that of the job
        before, for what was free then is forgotten, and a name of more than 65,536 characters.
        """
        if not isinstance(job.name, str) or len(job.name) > N_NAME_MAX:
            raise ValueError(f"name must be text of at most {N_NAME_MAX:,} characters, got {repr(job.name)[:80]}")
        one = AdmissionJobs(np.array([job.submission_s]), np.array([job.processing_s]), np.array([job.cores]),
                            np.array([job.deadline_s]), (job.name,))
        with self._lock:
            answer = self._decide(one, job)
            own = [int(each[0]) for each in (one.submission_s, one.processing_s, one.cores, one.deadline_s)]
            self._note(["offer", [*own, job.name], answer.is_accepted, answer.start_s])
        return answer

    def ended(self, name: str, at_s: int) -> tuple[Planned, ...]:
        """A running job has ended before its planned end: what waits for its cores starts earlier, at once.

        Returns the jobs whose times have changed; each keeps its cores and the order on them. Jobs that reach their
        planned end count as ended without being named. Refused with ValueError, as by the two below: a name that not
        exactly one job has that is accepted and not over, a time before that of the call before, and any such change
        under a power profile.
        """
        return self._change("ended", name, at_s, at_s)

    def cancel(self, name: str, at_s: int) -> tuple[Planned, ...]:
        """A job that waits or runs is given up: its cores are free from now on. Returns as `ended`."""
        return self._change("cancel", name, at_s, at_s)

    def extended(self, name: str, end_s: int, at_s: int) -> tuple[Planned, ...]:
        """A job takes until end_s, later or earlier than planned. Returns as `ended`; those that are now late say so
        (`is_late`). To be said before the planned end: the cores are given away there."""
        return self._change("extended", name, end_s, at_s)

    def running(self, at_s: int | None = None) -> tuple[Planned, ...]:
        """Accepted jobs that are not over at a time (default: that of the last call), by start; some still wait."""
        with self._lock:
            now_s = self.now_s if at_s is None else at_s
            return tuple(sorted((each for each in self._jobs if each.end_s > now_s), key=lambda each: each.start_s))

    def _decide(self, one: AdmissionJobs, job: OfferedJob) -> Answer:
        if one.submission_s[0] < self.now_s:
            raise ValueError(f"submission_s must be at least {self.now_s}, that of the job before, got "
                             f"{job.submission_s!r} (job {job.name})")
        self._check_open()
        decision = self._cores.offer(one)
        self._pass(int(one.submission_s[0]))
        self.n_offered += 1
        is_accepted = bool(decision.is_accepted[0])
        self.n_accepted += is_accepted
        offer, start_s = int(decision.offer_s[0]), int(decision.start_s[0])
        cores = tuple(decision.cores_of(0).tolist())
        if is_accepted:
            self._jobs.append(Planned(job.name, start_s, start_s + int(one.processing_s[0]), cores,
                                      int(one.deadline_s[0])))
        return Answer(is_accepted, start_s if is_accepted else None, cores, REASONS[int(decision.reason[0])],
                      offer if 0 <= offer < MAX_TIME_S else None)

    def _change(self, what: str, name: str, end_s: int, at_s: int) -> tuple[Planned, ...]:
        with self._lock:
            moved = self._replan(what, name, end_s, at_s)
            self._note([what, name, int(end_s), int(at_s)])
        return moved

    def _replan(self, what: str, name: str, end_s: int, at_s: int) -> tuple[Planned, ...]:
        """One job's end changes; the others keep their cores and their order, and start as early as these allow."""
        for label, value in (("at_s", at_s), ("end_s", end_s)):
            if not is_whole(value, self.now_s if label == "at_s" else at_s, MAX_TIME_S):
                raise ValueError(f"{label} must be a whole number of at least "
                                 f"{self.now_s if label == 'at_s' else at_s} and below 2**40, got {value!r}")
        found = [each for each in self._jobs if each.name == name and each.end_s > at_s]
        if len(found) != 1:
            raise ValueError(f"name must be that of one accepted job that is not over, got {name!r}, that of "
                             f"{len(found)}")
        own = found[0]
        if what == "ended" and own.start_s > at_s:
            raise ValueError(f"name must be that of a running job, got {name!r}, which starts at {own.start_s}")
        if what == "extended" and end_s <= own.start_s:
            raise ValueError(f"end_s must be after the start {own.start_s}, got {end_s!r}")
        if self.rules.has_power:
            raise ValueError("power must be constant where accepted jobs change, got a power profile")
        self._check_open()
        self._pass(int(at_s))
        changed = [] if what != "extended" else [replace(own, end_s=int(end_s))]
        jobs = [each for each in self._jobs if each is not own] + changed
        free_s: dict[int, int] = {}
        times: dict[int, Planned] = {}
        for each in sorted(jobs, key=lambda job: job.start_s):
            start_s = each.start_s
            if start_s >= at_s:
                start_s = max([int(at_s), *(free_s.get(core, 0) for core in each.cores)])
            times[id(each)] = replace(each, start_s=start_s, end_s=start_s + each.end_s - each.start_s)
            free_s |= dict.fromkeys(each.cores, times[id(each)].end_s)
        moved = tuple(times[id(each)] for each in jobs if times[id(each)] != each or each in changed)
        self._jobs = [times[id(each)] for each in jobs]
        self._cores.replan([(each.start_s, each.end_s, each.cores) for each in self._jobs], at_s)
        return moved

    def _pass(self, now_s: int) -> None:
        if now_s > self.now_s:
            self.now_s = now_s
            self._jobs = [each for each in self._jobs if each.end_s > now_s]

    def _check_open(self) -> None:
        if self._journal is not None:
            self._journal.check()

    def _note(self, entry: list[Any]) -> None:
        if self._journal is not None:
            self._journal.append(entry)

    def save(self, folder: str | Path) -> None:
        """Writes the state into a folder, whole or not at all: a save that is killed leaves the one before.

        Refused with ValueError: a folder that holds anything else.
        """
        with self._lock:
            journal = self._journal
            if journal is not None and journal.file.parent.resolve() != Path(folder).resolve():
                journal = None  # a copy elsewhere
            if journal is not None:
                journal.check()
            counts = {"now_s": self.now_s, "n_offered": self.n_offered, "n_accepted": self.n_accepted}
            jobs = [[each.name, each.start_s, each.end_s, list(each.cores), each.deadline_s] for each in self._jobs]
            write_state(Path(folder), self.rules, counts, jobs, self._cores.state(),
                        None if journal is None else JOURNAL)
            if journal is not None:
                journal.begin(0, journal_seed(Path(folder)))

    @classmethod
    def open(cls, folder: str | Path, n_cores: int, allocation: str = "best-fit", *, is_backfilling: bool = False,
             power: PowerProfile | None = None) -> Admission:
        """The machine of a folder, which is made if there is none, with a journal: each answer and each change is on
        disk (fsync) before the call returns, so a kill loses nothing that was answered.

        Refused with ValueError: other rules than the folder's, and a folder that another process has open. `save` of
        the same folder takes the journal into the saved state; `close` lets others open it.
        """
        path = Path(folder).absolute()
        journal = Journal(path)
        try:
            machine = cls(n_cores, allocation, is_backfilling=is_backfilling, power=power)
            if (path / MARK).is_file():
                rules, machine = machine.rules, cls.load(path)
                if rules != machine.rules:
                    raise ValueError(f"rules must be those of {path}, {machine.rules}, got {rules}")
            else:
                machine.save(path)
            read = read_journal(path / JOURNAL, journal_seed(path))
            journal.begin(read.n_bytes, read.crc)
        except BaseException:
            journal.close()
            raise
        machine._journal = journal  # noqa: SLF001 - its own class
        return machine

    def close(self) -> None:
        """Ends the journal of an opened folder."""
        with self._lock:
            if self._journal is not None:
                self._journal.close()

    def __enter__(self) -> Admission:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    @classmethod
    def load(cls, folder: str | Path) -> Admission:
        """The machine that `save` wrote, and what its journal holds since: it decides as the saved one would have.

        Raises FileNotFoundError where there is none, ValueError where a file is damaged or of another format.
        """
        rules, counts, jobs, state = read_state(Path(folder))
        # the saved table has the power that is to come; the profile itself is not needed any more
        try:
            machine = cls(rules.n_cores, rules.allocation, is_backfilling=rules.is_backfilling,
                          power=_NO_POWER if rules.has_power else None)
            machine._cores.restore(state)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{Path(folder) / MARK}: {error}") from error
        machine.rules = rules
        machine.now_s, machine.n_offered, machine.n_accepted = (counts[name] for name in (
            "now_s", "n_offered", "n_accepted"))
        machine._jobs = [Planned(name, start_s, end_s, tuple(cores), deadline_s)
                         for name, start_s, end_s, cores, deadline_s in jobs]
        file = Path(folder) / JOURNAL
        for line, entry in enumerate(read_journal(file, journal_seed(Path(folder))).entries, 1):
            try:
                machine._again(entry)
            except ValueError as error:
                raise ValueError(f"{file}: line {line}: {error}") from error
        return machine

    def _again(self, entry: list[Any]) -> None:
        if entry[0] != "offer":
            self._replan(*entry)
            return
        answer = self.offer(OfferedJob(*entry[1]))
        if [answer.is_accepted, answer.start_s] != entry[2:]:
            raise ValueError(f"the answer to job {entry[1][4]!r} must be {entry[2:]}, got "
                             f"{[answer.is_accepted, answer.start_s]}")


_NO_POWER = PowerProfile(np.array([0]), np.array([0]), 1)

JOURNAL = "journal.log"
_CHANGES = ("ended", "extended", "cancel")

N_LINE_MAX = 1 << 20
"""Of a line, bytes: the job's name is the only part that may be long."""


def line_of(entry: list[Any], before: int = 0) -> tuple[bytes, int]:
    """A line: CRC-32, a space, the entry as JSON; and its CRC, which goes on from that of the line before.

    >>> line_of(["ended", "a", 7])
    (b'4c8e486c ["ended","a",7]\\n', 1284393068)
    """
    text = json.dumps(entry, separators=(",", ":")).encode()
    crc = zlib.crc32(text, before)
    return b"%08x %b\n" % (crc, text), crc


@dataclass(frozen=True, slots=True)
class Read:
    """entries: of a journal. n_bytes: that they take. crc: of the last line."""

    entries: list[list[Any]]
    n_bytes: int
    crc: int


def read_journal(file: Path, seed: int) -> Read:
    """What a journal holds. seed: CRC-32 of the saved state that it goes on from. No file is an empty journal.

    A last line without its end was torn by a kill and is left out: its answer was not given. ValueError for anything
    else: a line that does not match its CRC-32, which a line that is lost, doubled or moved does not either.
    """
    entries: list[list[Any]] = []
    n_bytes, crc = 0, seed
    if not file.exists():
        return Read(entries, n_bytes, crc)
    if not file.is_file():
        raise ValueError(f"{file} must be a file, got something else")
    with file.open("rb") as stream:
        while line := stream.readline(N_LINE_MAX):
            digest, _, text = line.rstrip(b"\n").partition(b" ")
            found = zlib.crc32(text, crc)
            is_whole = line.endswith(b"\n")
            if not is_whole and len(line) < N_LINE_MAX and digest != b"%08x" % zlib.crc32(text[:-1], crc):
                break
            place = f"{file}: line {len(entries) + 1}"
            if not is_whole or digest != b"%08x" % found:
                raise ValueError(f"{place} must end and match its CRC-32, which goes on from the line before and the "
                                 f"saved state, got {line[:60]!r}")
            entries.append(_entry(text, place))
            n_bytes, crc = n_bytes + len(line), found
    return Read(entries, n_bytes, crc)


def _entry(text: bytes, place: str) -> list[Any]:
    try:
        found = json.loads(text)
        if isinstance(found, list) and found[0] == "offer":
            _, job, is_accepted, start_s = found
            *numbers, name = job
            is_good = len(numbers) == 4 and isinstance(is_accepted, bool) and _are_whole([start_s or 0])
        else:
            what, name, *numbers = found
            is_good = what in _CHANGES and len(numbers) == 2
    except (ValueError, TypeError, IndexError, RecursionError):
        is_good = False
    if not is_good or not isinstance(name, str) or not _are_whole(numbers):
        raise ValueError(f"{place} must be an offer or a change, got {text[:60]!r}")
    return list(found)


def _are_whole(numbers: list[Any]) -> bool:
    return all(isinstance(each, int) and not isinstance(each, bool) for each in numbers)


class Journal:
    """The open journal of a folder, which no other process may open meanwhile. The lock stands beside the folder, since
    saving replaces the folder as a whole."""

    def __init__(self, folder: Path) -> None:
        import fcntl  # not on Windows, where the rest of this room works

        self.file, self._descriptor, self._n_bytes, self._crc = folder / JOURNAL, -1, 0, 0
        folder.parent.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(folder.with_name(f".{folder.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(self._lock)
            raise ValueError(f"{folder} must be open in one process, got another one that has it open") from error

    def begin(self, n_bytes: int, crc: int) -> None:
        """Append from here on; what follows n_bytes is torn and is cut off. crc: of the last line, or the seed."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self._n_bytes, self._crc = n_bytes, crc
        os.ftruncate(self._descriptor, n_bytes)
        os.fsync(self._descriptor)
        sync(self.file.parent)

    def check(self) -> None:
        """ValueError if nothing can be appended any more."""
        if self._descriptor < 0:
            raise ValueError(f"{self.file} must be open, got one that is closed or that failed; open the folder again")

    def append(self, entry: list[Any]) -> None:
        """Write a line and flush it to disk. OSError: it is not in the journal, or not surely, and nothing more is
        taken until the folder is opened again."""
        self.check()
        line, crc = line_of(entry, self._crc)
        view, length = memoryview(line), len(line)
        try:
            with naming(self.file):
                while view:
                    view = view[os.write(self._descriptor, view):]
                os.fsync(self._descriptor)
        except BaseException:
            try:
                os.ftruncate(self._descriptor, self._n_bytes)
            finally:
                os.close(self._descriptor)
                self._descriptor = -1
            raise
        self._n_bytes, self._crc = self._n_bytes + length, crc

    def close(self) -> None:
        """End it, and let others open the folder."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


FORMAT, FORMAT_VERSION = "sojourn-admission", 2
MARK, ARRAY = "admission.json", "state.npy"
N_BYTES_MAX = 1 << 30
COUNTS = ("now_s", "n_offered", "n_accepted")
_ACCEPTANCE = {"acceptance": "greedy", "slack": None}
"""Format 2 has these fields for other rules of acceptance, of which a gateway has none."""


@dataclass(frozen=True, slots=True)
class AdmissionRules:
    """What an admission was made with. has_power: a power profile."""

    n_cores: int
    allocation: str
    is_backfilling: bool
    has_power: bool


def write_state(folder: Path, rules: AdmissionRules, counts: Mapping[str, int], jobs: Sequence[Sequence[Any]],
                state: np.ndarray, journal: str | None) -> None:
    """Writes all files at once; a folder that holds anything else is refused with ValueError.

    jobs: that are accepted and not over, as rows that JSON can hold. journal: name of an empty file, if there is one.
    """
    with io.BytesIO() as stream:
        np.save(stream, state, allow_pickle=False)
        array = stream.getvalue()
    header: dict[str, Any] = {"format": FORMAT, "format_version": FORMAT_VERSION,
                              "rules": {**asdict(rules), **_ACCEPTANCE}, "counts": dict(counts), "jobs": list(jobs),
                              "sha256": {ARRAY: _sha256(array)}}
    header["sha256"]["header"] = _header_hash(header)
    text = json.dumps(header, indent=1, sort_keys=True) + "\n"
    if max(len(text), len(array)) > N_BYTES_MAX:
        raise ValueError(f"jobs must take at most {N_BYTES_MAX >> 20} MiB, got {max(len(text), len(array)) >> 20}")
    empty = {} if journal is None else {journal: b""}
    publish_files(folder, {ARRAY: array, MARK: text.encode(), **empty}, MARK, others=())


def read_state(folder: Path) -> tuple[AdmissionRules, dict[str, int], list[list[Any]], np.ndarray]:
    """AdmissionRules, counts, jobs and array. FileNotFoundError without one, ValueError where anything is damaged."""
    mark, file = folder / MARK, folder / ARRAY
    if not mark.is_file():
        raise FileNotFoundError(f"{folder} must hold {MARK}, got none")
    try:
        header = json.loads(inflated_bytes(mark, N_BYTES_MAX))
        version = (header["format"], header["format_version"])
        hashes = header["sha256"]
        found = _header_hash(header)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"{mark} must be the header of an admission, got {type(error).__name__}: {error}") from error
    if version != (FORMAT, FORMAT_VERSION):
        raise ValueError(f"{mark} must be of {FORMAT} {FORMAT_VERSION}, got "
                         f"{str(version[0])[:80]} {str(version[1])[:80]}")
    if hashes.get("header") != found:
        raise ValueError(f"{mark}: sha256 must be {str(hashes.get('header'))[:80]}, got {found}")
    if not file.is_file():
        raise FileNotFoundError(f"{folder} must hold {ARRAY}, got none")
    content = inflated_bytes(file, N_BYTES_MAX)
    if _sha256(content) != hashes.get(ARRAY):
        raise ValueError(f"{file}: sha256 must be {str(hashes.get(ARRAY))[:80]} ({MARK}), got "
                         f"{_sha256(content)}")
    try:
        with io.BytesIO(content) as stream:
            state = np.lib.format.read_array(stream, allow_pickle=False)
    except (ValueError, MemoryError, EOFError, OverflowError) as error:
        raise ValueError(f"{file} must be an array, got {error}") from error
    try:
        given, jobs = header["rules"], header["jobs"]
        rules = AdmissionRules(**{name: given[name] for name in given.keys() - _ACCEPTANCE.keys()})
        counts = {name: header["counts"][name] for name in COUNTS}
        is_good = all(is_whole(each, 0, 2**62) for each in counts.values()) and all(
            _is_job(job, rules.n_cores) for job in jobs)
        # each core that is always on stands in the array, so a lie about their number takes no memory
        is_good = is_good and given["acceptance"] == "greedy" and is_whole(rules.n_cores, 1, MAX_TIME_S) and (
            rules.has_power or rules.n_cores <= state.shape[-1])
    except (ValueError, KeyError, TypeError, AttributeError, IndexError):
        is_good = False
    if not is_good:
        raise ValueError(f"{mark} must hold rules, counts and jobs that fit its array, got others")
    return rules, counts, jobs, state


def _is_job(row: Any, n_cores: int) -> bool:
    name, start_s, end_s, cores, deadline_s = row
    return isinstance(name, str) and all(is_whole(each, 0, 2**62) for each in (start_s, end_s, deadline_s)) and all(
        is_whole(core, 0, n_cores) for core in cores)


def journal_seed(folder: Path) -> int:
    """What a journal goes on from, so that one of another state is refused: CRC-32 of the header."""
    return zlib.crc32((folder / MARK).read_bytes())


def _header_hash(header: Mapping[str, Any]) -> str:
    """Of all but itself."""
    others = {name: digest for name, digest in header["sha256"].items() if name != "header"}
    return _sha256(json.dumps({**header, "sha256": others}, sort_keys=True).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
