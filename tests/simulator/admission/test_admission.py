"""A gateway's admission: the same decisions as a replay, a saved state that continues, damaged and killed saves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sojourn import publishing
from sojourn.simulator.admission import Admission, AdmissionJobs, Answer, OfferedJob, PowerProfile, admit, deadlines_of

POWER = PowerProfile(np.array([0, 40, 60]), np.array([5, 2, 4]), 400)
WAYS: Mapping[str, Mapping[str, Any]] = {
    "ends": {"allocation": "best-fit"},
    "balanced": {"allocation": "balanced"},
    "holes": {"allocation": "min-idle", "is_backfilling": True},
    "power": {"allocation": "best-fit", "is_backfilling": True, "power": POWER},
}


def drawn(widest: int, n: int = 80) -> AdmissionJobs:
    rng = np.random.default_rng(4)
    submission, processing = np.sort(rng.integers(0, 90, n)), rng.integers(1, 14, n)
    return AdmissionJobs(submission, processing, rng.integers(1, widest + 1, n),
                         deadlines_of(submission, processing, rng.uniform(0, 1.5, n)))


def job_of(jobs: AdmissionJobs, row: int) -> OfferedJob:
    return OfferedJob(int(jobs.submission_s[row]), int(jobs.processing_s[row]), int(jobs.cores[row]),
               int(jobs.deadline_s[row]), f"job-{row}")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_offers_decide_as_a_replay_also_after_a_restart(way: str, tmp_path: Path) -> None:
    jobs = drawn(3)
    whole = admit(jobs, 5, **WAYS[way])
    machine = Admission(5, **WAYS[way])
    assert 5 < whole.is_accepted.sum() < len(jobs) - 5
    for row in range(len(jobs)):
        if row in (20, 50):
            machine.save(tmp_path / "state")
            machine = Admission.load(tmp_path / "state")
        answer = machine.offer(job_of(jobs, row))
        assert answer.is_accepted == whole.is_accepted[row]
        assert answer.start_s == (int(whole.start_s[row]) if answer.is_accepted else None)
        assert answer.cores == tuple(whole.cores_of(row).tolist())
        assert answer.counter_offer_s == (None if whole.offer_s[row] < 0 else whole.offer_s[row])
    assert (machine.n_offered, machine.n_accepted, machine.now_s) == (
        len(jobs), whole.is_accepted.sum(), int(jobs.submission_s.max()))
    assert machine.rules.has_power == (way == "power")


def test_a_counter_offer_that_is_taken_up_is_accepted() -> None:
    machine = Admission(2)
    assert machine.offer(OfferedJob(0, 10, 2, 10)).is_accepted
    refused = machine.offer(OfferedJob(1, 5, 1, 9))
    assert refused == Answer(False, None, (), "no room before its deadline", 15)
    assert machine.offer(OfferedJob(1, 5, 1, 15)).start_s == 10
    assert machine.offer(OfferedJob(1, 5, 3, 99)) == Answer(False, None, (), "wider than the machine", None)


def test_what_is_refused_has_no_effect() -> None:
    machine = Admission(1)
    machine.offer(OfferedJob(7, 5, 1, 99))
    for job, words in ((OfferedJob(6, 5, 1, 99, "late"), r"submission_s must be at least 7, .* got 6 \(job late\)"),
                       (OfferedJob(8, 0, 1, 99, "none"), r"processing_s .* got 0 \(job none\)")):
        with pytest.raises(ValueError, match=words):
            machine.offer(job)
    assert (machine.n_offered, machine.now_s) == (1, 7)
    assert machine.offer(OfferedJob(7, 5, 1, 17)).start_s == 12


def _saved(folder: Path) -> Admission:
    machine = Admission(2, is_backfilling=True)
    machine.offer(OfferedJob(0, 5, 1, 9))
    machine.save(folder)
    return machine


def test_a_file_of_the_user_s_own_is_not_removed(tmp_path: Path) -> None:
    admission, folder = Admission(2), tmp_path / "state"
    admission.save(folder)
    admission.save(folder)  # its own files go
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match=r"must hold nothing but admission\.json, state\.npy, got 'notes\.txt'"):
        admission.save(folder)
    assert (folder / "notes.txt").read_text() == "mine"


def test_a_save_that_fails_leaves_the_state_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = _saved(tmp_path / "state")
    machine.offer(OfferedJob(1, 5, 2, 30))

    def full_disk(path: Path) -> None:
        raise OSError(28, "No space left on device", str(path))

    monkeypatch.setattr(publishing, "sync_tree", full_disk)
    with pytest.raises(OSError, match="No space left"):
        machine.save(tmp_path / "state")
    monkeypatch.undo()
    assert Admission.load(tmp_path / "state").n_offered == 1
    assert [path.name for path in tmp_path.iterdir()] == ["state"]


@pytest.mark.parametrize(("file", "words"), [("state.npy", "state.npy: sha256 must be"),
                                             ("admission.json", "admission.json: sha256 must be")])
def test_a_damaged_state_is_refused(tmp_path: Path, file: str, words: str) -> None:
    _saved(tmp_path)
    content = (tmp_path / file).read_bytes()
    (tmp_path / file).write_bytes(content.replace(b'"n_offered": 1', b'"n_offered": 2') if file.endswith("json")
                                  else content[:-8] + b"\x07" * 8)
    with pytest.raises(ValueError, match=words):
        Admission.load(tmp_path)


@pytest.mark.parametrize(("text", "words"), [("{", "must be the header of an admission"),
                                             ("[]", "must be the header of an admission"),
                                             ("{}", "must be the header of an admission")])
def test_no_header_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "admission.json").write_text(text)
    with pytest.raises(ValueError, match=words):
        Admission.load(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"must hold admission.json, got none"):
        Admission.load(tmp_path / "none")


def test_another_format_and_a_folder_of_others_are_refused(tmp_path: Path) -> None:
    _saved(tmp_path / "state")
    header = json.loads((tmp_path / "state" / "admission.json").read_text())
    (tmp_path / "state" / "admission.json").write_text(json.dumps({**header, "format_version": 3}))
    with pytest.raises(ValueError, match="must be of sojourn-admission 2, got sojourn-admission 3"):
        Admission.load(tmp_path / "state")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "letter").write_text("mine")
    with pytest.raises(ValueError, match=r"must be new, empty or a folder with admission.json"):
        Admission(1).save(tmp_path / "own")
    assert (tmp_path / "own" / "letter").read_text() == "mine"


@pytest.mark.parametrize("is_backfilling", [True, False])
def test_a_state_that_is_none_is_refused(is_backfilling: bool) -> None:
    cores = Admission(3, is_backfilling=is_backfilling)._cores
    good = cores.state()
    bad = [good.astype(np.int32), good[:1], good[:, ::-1] + np.arange(3)[::-1], np.full_like(good, 7)]
    for state in bad:
        with pytest.raises(ValueError, match="state must"):
            cores.restore(state)
    cores.restore(good)
    assert (cores.state() == good).all()


@pytest.mark.parametrize("n_cores", [1.5, "2", 0, None])
def test_the_number_of_cores_is_a_whole_one(n_cores: Any) -> None:
    for is_backfilling in (False, True):
        with pytest.raises(ValueError, match="n_cores must be a whole number of at least 1"):
            Admission(n_cores, is_backfilling=is_backfilling)


def test_a_counter_offer_is_a_deadline_that_a_job_can_have() -> None:
    machine, late = Admission(1), 2**40 - 10
    assert machine.offer(OfferedJob(late - 20, 20, 1, late)).is_accepted
    answer = machine.offer(OfferedJob(late - 19, 20, 1, late + 5))
    assert (answer.is_accepted, answer.counter_offer_s) == (False, None)


def planned(machine: Admission) -> list[tuple[str, int, int, tuple[int, ...]]]:
    return [(each.name, each.start_s, each.end_s, each.cores) for each in machine.running()]


@pytest.mark.parametrize("is_backfilling", [False, True])
def test_what_ended_early_gives_its_cores_to_those_who_wait_and_to_new_ones(is_backfilling: bool) -> None:
    machine = Admission(1, is_backfilling=is_backfilling)
    machine.offer(OfferedJob(0, 100, 1, 100, "a"))
    machine.offer(OfferedJob(0, 50, 1, 160, "b"))
    assert not machine.offer(OfferedJob(1, 20, 1, 130, "c")).is_accepted  # a to 100, b to 150, so c would end at 170
    assert planned(machine) == [("a", 0, 100, (0,)), ("b", 100, 150, (0,))]
    moved = machine.ended("a", 40)
    assert [(each.name, each.start_s, each.end_s) for each in moved] == [("b", 40, 90)]
    assert machine.offer(OfferedJob(40, 20, 1, 130, "c")).start_s == 90
    assert planned(machine) == [("b", 40, 90, (0,)), ("c", 90, 110, (0,))]


@pytest.mark.parametrize("is_backfilling", [False, True])
def test_what_is_extended_tells_who_is_late_and_what_is_cancelled_goes(is_backfilling: bool) -> None:
    machine = Admission(1, is_backfilling=is_backfilling)
    for name, deadline_s in (("a", 10), ("b", 20), ("c", 40)):
        assert machine.offer(OfferedJob(0, 10, 1, deadline_s, name)).is_accepted
    # a takes 5 s longer: b runs from 15 to 25, 5 s late, and c from 25 to 35, in time
    moved = machine.extended("a", 15, at_s=9)
    assert [(each.name, each.start_s, each.is_late) for each in moved] == [("b", 15, True), ("c", 25, False),
                                                                           ("a", 0, True)]
    assert [each.name for each in machine.cancel("b", 10)] == ["c"]
    assert planned(machine) == [("a", 0, 15, (0,)), ("c", 15, 25, (0,))]
    assert machine.running(20)[0].name == "c"
    assert machine.offer(OfferedJob(12, 5, 1, 30, "d")).start_s == 25


def test_a_change_that_cannot_be_is_refused_without_effect() -> None:
    machine = Admission(1)
    machine.offer(OfferedJob(0, 10, 1, 10, "a"))
    machine.offer(OfferedJob(5, 10, 1, 20, "b"))
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: machine.ended("c", 6), "name must be that of one accepted job .* got 'c', that of 0"),
        (lambda: machine.ended("b", 6), "name must be that of a running job, got 'b'"),
        (lambda: machine.ended("a", 4), "at_s must be a whole number of at least 5"),
        (lambda: machine.extended("a", 5, 6), "end_s must be a whole number of at least 6"),
        (lambda: machine.extended("b", 10, 6), "end_s must be after the start 10, got 10"),
        (lambda: machine.ended("a", 10), "that of 0"),
    ]
    for call, words in refused:
        with pytest.raises(ValueError, match=words):
            call()
    assert (machine.now_s, planned(machine)) == (5, [("a", 0, 10, (0,)), ("b", 10, 20, (0,))])


def lived(machine: Admission) -> None:
    """Some answers and changes."""
    machine.offer(OfferedJob(0, 30, 1, 40, "a"))
    machine.offer(OfferedJob(0, 10, 2, 60, "b"))
    machine.offer(OfferedJob(0, 10, 9, 60, "wide"))
    machine.ended("a", 5)
    machine.extended("b", 25, 6)
    machine.offer(OfferedJob(7, 10, 1, 60, "c"))
    machine.cancel("c", 8)


def test_each_answer_is_in_the_journal_wherever_it_is_cut(tmp_path: Path) -> None:
    states = []
    for n_calls in range(8):
        machine = Admission(2, is_backfilling=True)
        done = [0]

        def counted(what: Any, done: list[int] = done, n_calls: int = n_calls) -> Any:
            def call(*given: Any) -> Any:
                done[0] += 1
                return what(*given) if done[0] <= n_calls else None
            return call

        class Cut:
            offer, ended = staticmethod(counted(machine.offer)), staticmethod(counted(machine.ended))
            extended, cancel = staticmethod(counted(machine.extended)), staticmethod(counted(machine.cancel))

        lived(Cut)  # type: ignore[arg-type]
        states.append((machine.n_offered, machine.now_s, planned(machine), machine._cores.state().tolist()))
    with Admission.open(tmp_path / "state", 2, is_backfilling=True) as machine:
        lived(machine)
    file = tmp_path / "state" / "journal.log"
    content = file.read_bytes()
    for n_bytes in range(len(content) + 1):
        file.write_bytes(content[:n_bytes])
        again = Admission.load(tmp_path / "state")
        expected = states[content[:n_bytes].count(b"\n")]
        assert (again.n_offered, again.now_s, planned(again), again._cores.state().tolist()) == expected
    file.write_bytes(content[:9] + b"0" + content[10:])
    with pytest.raises(ValueError, match=r"journal\.log: line 1 must end and match its CRC-32"):
        Admission.load(tmp_path / "state")


class Killed(BaseException):
    """The process is no more."""


def test_a_kill_at_any_flush_loses_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    n_events, answered = 0, False
    while not answered:
        n_events += 1
        folder = tmp_path / str(n_events)
        machine = Admission.open(folder, 1)
        assert machine.offer(OfferedJob(0, 10, 1, 10, "a")).is_accepted
        left = [n_events]

        def flushed(descriptor: int, left: list[int] = left, real: Any = os.fsync) -> None:
            left[0] -= 1
            if left[0] == 0:
                raise Killed
            real(descriptor)

        with monkeypatch.context() as patched:
            patched.setattr(os, "fsync", flushed)
            try:
                machine.save(folder)
                answered = machine.offer(OfferedJob(0, 10, 1, 20, "b")).is_accepted
            except Killed:
                pass
        machine.close()
        with Admission.open(folder, 1) as again:
            names = [each.name for each in again.running()]
            assert names in ([["a", "b"]] if answered else [["a"], ["a", "b"]])
            assert (folder / "journal.log").read_bytes().count(b"\n") <= 2
    assert n_events > 5


def test_an_answer_that_is_not_on_disk_is_not_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Admission.open(tmp_path / "state", 1)
    machine.offer(OfferedJob(0, 10, 1, 10, "a"))

    def full_disk(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched, pytest.raises(OSError, match=r"No space left .*journal\.log"):
        patched.setattr(os, "fsync", full_disk)
        machine.offer(OfferedJob(0, 10, 1, 20, "b"))
    with pytest.raises(ValueError, match="must be open, got one that is closed or that failed"):
        machine.offer(OfferedJob(0, 10, 1, 20, "b"))
    machine.close()
    with Admission.open(tmp_path / "state", 1) as again:
        assert [each.name for each in again.running()] == ["a"]


def test_one_process_at_a_time_and_with_the_same_rules(tmp_path: Path) -> None:
    with Admission.open(tmp_path / "state", 1), pytest.raises(ValueError, match="must be open in one process"):
        Admission.open(tmp_path / "state", 1)
    with pytest.raises(ValueError, match="rules must be those of"):
        Admission.open(tmp_path / "state", 2)
    with pytest.raises(ValueError, match=r"got 'journal\.log'"):
        Admission(1).save(tmp_path / "state")
    Admission.open(tmp_path / "state", 1).close()


@pytest.mark.parametrize("way", ["ends", "balanced", "holes"])
def test_no_core_has_two_jobs_and_none_starts_later_when_one_ends_early(way: str) -> None:
    rng = np.random.default_rng(7)
    machine = Admission(4, **WAYS[way])
    now_s = n_moved = 0
    for number in range(400):
        now_s += int(rng.integers(0, 3))
        processing_s = int(rng.integers(1, 25))
        machine.offer(OfferedJob(now_s, processing_s, int(rng.integers(1, 4)),
                          now_s + int(processing_s * rng.uniform(1.5, 6)), f"{number}"))
        before = {each.name: each for each in machine.running()}
        if number % 2 and before:
            one = before[str(rng.choice(list(before)))]
            call = machine.ended if one.start_s <= now_s else machine.cancel
            moved = call(one.name, now_s)
            n_moved += len(moved)
            assert all(each.start_s < before[each.name].start_s and not each.is_late for each in moved)
        held: dict[int, int] = {}
        for each in machine.running():
            assert all(each.start_s >= held.get(core, 0) for core in each.cores)
            held |= dict.fromkeys(each.cores, each.end_s)
    assert n_moved > 20


def test_the_own_folder_is_known_by_any_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Admission.open("state", 1) as machine:
        machine.offer(OfferedJob(0, 10, 1, 20, "a"))
        machine.save("state")  # a relative path takes the journal into the saved state, too
        assert Path("state/journal.log").read_bytes() == b""
    (tmp_path / "link").symlink_to(tmp_path / "state")
    with Admission.open("link", 1) as machine:
        assert [each.name for each in machine.running()] == ["a"]
        machine.save(tmp_path / "state")
