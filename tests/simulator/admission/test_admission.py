"""A gateway's admission: the same decisions as a replay, a saved state that continues, damaged and killed saves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sojourn import publishing
from sojourn.simulator.admission import Admission, AdmissionJobs, Answer, Job, PowerProfile, admit, deadlines_of

POWER = PowerProfile(np.array([0, 40, 60]), np.array([5, 2, 4]), 400)
WAYS: Mapping[str, Mapping[str, Any]] = {
    "ends": {"allocation": "best-fit"},
    "threshold": {"allocation": "balanced", "acceptance": "threshold", "slack": 0.5},
    "holes": {"allocation": "min-idle", "is_backfilling": True},
    "power": {"allocation": "best-fit", "is_backfilling": True, "power": POWER},
}


def drawn(widest: int, n: int = 80) -> AdmissionJobs:
    rng = np.random.default_rng(4)
    submission, processing = np.sort(rng.integers(0, 90, n)), rng.integers(1, 14, n)
    return AdmissionJobs(submission, processing, rng.integers(1, widest + 1, n),
                         deadlines_of(submission, processing, rng.uniform(0, 1.5, n)))


def job_of(jobs: AdmissionJobs, row: int) -> Job:
    return Job(int(jobs.submission_s[row]), int(jobs.processing_s[row]), int(jobs.cores[row]),
               int(jobs.deadline_s[row]), f"job-{row}")


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_offers_decide_as_a_replay_also_after_a_restart(way: str, tmp_path: Path) -> None:
    jobs = drawn(1 if way == "threshold" else 3)
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
    assert machine.offer(Job(0, 10, 2, 10)).is_accepted
    refused = machine.offer(Job(1, 5, 1, 9))
    assert refused == Answer(False, None, (), "no room before its deadline", 15)
    assert machine.offer(Job(1, 5, 1, 15)).start_s == 10
    assert machine.offer(Job(1, 5, 3, 99)) == Answer(False, None, (), "wider than the machine", None)


def test_what_is_refused_has_no_effect() -> None:
    machine = Admission(1)
    machine.offer(Job(7, 5, 1, 99))
    for job, words in ((Job(6, 5, 1, 99, "late"), r"submission_s must be at least 7, .* got 6 \(job late\)"),
                       (Job(8, 0, 1, 99, "none"), r"processing_s .* got 0 \(job none\)")):
        with pytest.raises(ValueError, match=words):
            machine.offer(job)
    assert (machine.n_offered, machine.now_s) == (1, 7)
    assert machine.offer(Job(7, 5, 1, 17)).start_s == 12


def _saved(folder: Path) -> Admission:
    machine = Admission(2, is_backfilling=True)
    machine.offer(Job(0, 5, 1, 9))
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
    machine.offer(Job(1, 5, 2, 30))

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
    (tmp_path / "state" / "admission.json").write_text(json.dumps({**header, "format_version": 2}))
    with pytest.raises(ValueError, match="must be of sojourn-admission 1, got sojourn-admission 2"):
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
    assert machine.offer(Job(late - 20, 20, 1, late)).is_accepted
    answer = machine.offer(Job(late - 19, 20, 1, late + 5))
    assert (answer.is_accepted, answer.counter_offer_s) == (False, None)
