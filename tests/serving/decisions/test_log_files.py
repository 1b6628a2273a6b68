"""A log outlives what processes and disks do: kills, forks, full disks, other writers, and clocks set back."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from made_bundles import Made
from sojourn.serving import Predictor
from sojourn.serving.decisions import LogSettings, read_log, recorder
from sojourn.serving.decisions.log_rows import ENDS, Frame, LogFile, Skipped, frames_of, log_files

KEY = b"0123456789abcdef"


def test_a_log_cut_at_any_byte_is_read_up_to_the_last_whole_frame() -> None:
    frames = [Frame(ENDS, {"k": k}, np.arange(3.0 * (k + 1)).reshape(-1, 3)) for k in range(3)]
    packed = [frame.packed() for frame in frames]
    ends = np.cumsum([0, *map(len, packed)])
    content = b"".join(packed)
    for cut in range(len(content) + 1):
        skipped = Skipped()
        found = list(frames_of(content[:cut], skipped))
        n_whole = int(np.searchsorted(ends, cut, side="right")) - 1
        assert [frame.document for frame in found] == [{"k": k} for k in range(n_whole)]
        assert skipped.n_bytes == cut - ends[n_whole]
        assert all(np.array_equal(one.numbers, frame.numbers) for one, frame in zip(found, frames, strict=False))


def test_a_changed_byte_costs_its_own_frame_and_no_other() -> None:
    packed = [Frame(ENDS, {"k": k}, np.ones((2, 4))).packed() for k in range(3)]
    for place in range(len(packed[1])):
        broken = bytearray(packed[1])
        broken[place] ^= 0xFF
        found = [frame.document["k"] for frame in frames_of(packed[0] + bytes(broken) + packed[2])]
        assert found in ([0, 2], [0, 1, 2]) and (found == [0, 2] or 4 <= place < 8)  # the type byte, and padding


def test_owners_are_written_by_their_hash_and_the_key_is_not(made: Made, tmp_path: Path) -> None:
    owner = str(made.request(0)["subscription"])
    for name, key in (("plain", None), ("hashed", KEY)):
        predictor = Predictor.load(made.folders["hazard"])
        predictor.log_to(tmp_path / name, owner_key=key)
        predictor.admit(made.request(0), 10**7)
        predictor.stop_logging()
    (plain,), (hashed,) = (read_log(tmp_path / name).decisions for name in ("plain", "hashed"))
    assert plain.owner[0][0] == owner
    assert [len(each) for each in hashed.owner[0]] == [16] * len(plain.owner[0])
    assert set(hashed.owner[0]).isdisjoint(plain.owner[0])
    files = [frame for path in log_files(tmp_path / "hashed") for frame in frames_of(path.read_bytes())]
    assert not any(KEY.decode() in str(frame.document) or owner in str(frame.document.get("owner")) for frame in files)


def test_a_full_disk_costs_no_answer_and_what_waits_is_written_later(
        made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "N_QUEUED_MAX", 5)
    is_full, write = True, os.write

    def half_written(descriptor: int, content: memoryview) -> int:
        if not is_full:
            return write(descriptor, content)
        write(descriptor, content[:len(content) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", half_written)
    predictor = Predictor.load(made.folders["hazard"])
    predictor.log_to(tmp_path, flush_s=60.0)
    for idx in range(3):
        assert predictor.admit(made.request(idx), 10**7 + idx).remaining(0.0) > 0.0
    assert not predictor.flush_decisions()
    vms = [predictor.admit(made.request(idx), 10**7 + idx) for idx in range(3, 12)]
    counters = predictor.counters
    assert (counters["log_errors"], counters["decisions_lost"], counters["decisions_logged"]) == (1, 4, 0)
    is_full = False
    assert predictor.flush_decisions()
    predictor.ended(vms[0], 10**7 + 500)
    predictor.stop_logging()
    log = read_log(tmp_path)
    assert (sum(map(len, log.decisions)), log.n_lost, log.skipped.n_places) == (8, 4, 0)
    (loss,) = log.sessions[0].losses
    assert (loss.n, loss.what) == (4, "records")
    assert (loss.from_s, loss.to_s) == (10**7 + 8.0, 10**7 + 11.0)  # what ran then may have ended unseen
    assert predictor.counters["decisions_logged"] == 8


def test_files_are_closed_by_size_and_the_oldest_go(tmp_path: Path) -> None:
    settings = LogSettings(file_mib=0.001, keep_mib=0.0045)
    writer = LogFile(tmp_path, settings)
    for _ in range(20):
        writer.append(lambda is_new: b"x" * 600)
    sizes = [path.stat().st_size for path in log_files(tmp_path)]
    assert sizes == [1_200] * len(sizes) and sum(sizes[:-1]) <= 0.0045 * 2**20 < sum(sizes) + 1_200


def test_files_larger_than_what_is_kept_are_refused() -> None:
    with pytest.raises(ValueError, match=r"file_mib must .*, got 64.0"):
        LogSettings(keep_mib=10.0)


def test_a_file_that_was_removed_is_begun_anew(tmp_path: Path) -> None:
    writer = LogFile(tmp_path, LogSettings())
    told: list[bool] = []

    def content(is_new: bool) -> bytes:
        told.append(is_new)
        return b"x"

    for _ in range(3):
        writer.append(content)
        if len(told) == 1:
            log_files(tmp_path)[0].unlink()
    assert told == [True, True, False]


def test_old_files_go_by_their_age_and_a_clock_set_back_removes_none(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for n_ago_s in (0, 10 * 86_400):
        old = LogFile(tmp_path, LogSettings())
        old.append(lambda is_new: b"x")
        old.close()
        os.utime(log_files(tmp_path)[-1], (time.time() - n_ago_s,) * 2)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    LogFile(tmp_path, LogSettings(keep_s=86_400.0)).append(lambda is_new: b"x")
    assert len(log_files(tmp_path)) == 3
    monkeypatch.undo()
    LogFile(tmp_path, LogSettings(keep_s=86_400.0)).append(lambda is_new: b"x")
    assert len(log_files(tmp_path)) == 3  # the old one went, a new one came


WRITER = """
import sys
from sojourn.serving import Predictor
predictor = Predictor.load(sys.argv[1])
predictor.log_to(sys.argv[2], flush_s=0.01)
request = {"cpu_cores": 2.0, "mem_gib": 8.0, "subscription": "a", "zone": "z0"}
for idx in range(10**9):
    predictor.admit(request, 10**7 + idx, request_id=f"{sys.argv[3]}-{idx}")
    if idx % 50 == 0:
        predictor.flush_decisions()
        print(idx, flush=True)
"""


@pytest.mark.slow
def test_two_processes_log_to_one_folder_and_a_kill_leaves_whole_rows(made: Made, tmp_path: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(made.folders["hazard"]), str(tmp_path), name],
                                stdout=subprocess.PIPE, text=True) for name in ("a", "b")]
    told = {}
    for name, writer in zip("ab", writers, strict=True):
        assert writer.stdout is not None
        for line in writer.stdout:
            told[name] = int(line)
            if told[name] >= 200:
                break
    for writer in writers:
        writer.send_signal(signal.SIGKILL)
        writer.communicate()
    log = read_log(tmp_path)
    ids = [name for block in log.decisions for name in block.request_id]
    for name in "ab":
        own = [int(each.partition("-")[2]) for each in ids if each.startswith(name)]
        assert own == list(range(len(own))) and len(own) > told[name]
    assert len(log.sessions) == 2 and log.n_unnamed == 0


FORKS = """
import os, sys
from sojourn.serving import Predictor
predictor = Predictor.load(sys.argv[1])
predictor.log_to(sys.argv[2], flush_s=60.0)
request = {"cpu_cores": 2.0, "mem_gib": 8.0, "subscription": "a", "zone": "z0"}
before = predictor.admit(request, 10**7, request_id="before")
child = os.fork()
if not child:
    predictor.admit(request, 10**7 + 1, request_id="child")
    predictor.ended(before, 10**7 + 5)
    predictor.stop_logging()
    os._exit(0)
predictor.admit(request, 10**7 + 2, request_id="parent")
assert os.waitpid(child, 0)[1] == 0
predictor.stop_logging()
"""


def test_a_forked_child_logs_its_own_decisions_once(made: Made, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", FORKS, str(made.folders["hazard"]), str(tmp_path)], check=True, timeout=60)
    log = read_log(tmp_path)
    (block,) = log.decisions
    assert sorted(block.request_id) == ["before", "child", "parent"]
    assert len(log.sessions) == 2 and len(log.ends) == 1
    before = block.request_id.tolist().index("before")
    assert log.ends[0, :2].tolist() == [block.token[before], block.number[before]]


def test_nothing_later_than_asked_for_is_read(made: Made, tmp_path: Path) -> None:
    predictor = Predictor.load(made.folders["hazard"])
    predictor.log_to(tmp_path)
    early, late = (predictor.admit(made.request(0), 10**7 + idx) for idx in (0, 100))
    predictor.withdraw(late)
    predictor.ended(early, 10**7 + 200)
    predictor.stop_logging()
    log = read_log(tmp_path, 10**7 + 50)
    assert (sum(map(len, log.decisions)), len(log.ends), len(log.withdrawals), log.n_later) == (1, 0, 0, 3)
    assert log.sessions[0].clock_s == 10**7


@pytest.mark.parametrize(("change", "rule"), [
    ({"flush_s": 0.0}, "flush_s must be finite and above 0, got 0.0"),
    ({"file_mib": float("nan")}, "file_mib must be finite and above 0, got nan"),
    ({"keep_s": True}, "keep_s must be finite and above 0, got True"),
    ({"owner_key": b"short"}, "owner_key must be 16 to 64 bytes, got 5 bytes"),
    ({"owner_key": "0123456789abcdef"}, "owner_key must be 16 to 64 bytes, got str"),
])  # fmt: skip
def test_a_wrong_setting_is_refused_by_name(change: dict[str, object], rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        LogSettings(**change)  # type: ignore[arg-type]
