"""examples/openpbs/soft_walltime.py beside a `pbs` that is made here, with the interface that OpenPBS documents."""

from __future__ import annotations

import runpy
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from sojourn.flows.annotation.bounds import LimitTable

HOOK = Path(__file__).parents[3] / "examples" / "openpbs" / "soft_walltime.py"
LIMITS = LimitTable(("account", "user", "job_name", "partition"), {
    "lab|ann|sim|work": 30, "lab|ann|a%20%7C%20%2A%C3%A9|work": 7, "lab|ann|*|work": 15, "lab|ann|*|*": 90,
    "_pbs_project_default|ann|*|*": 5}, 0.5)


class Duration(int):
    """pbs.duration, of a whole number of seconds."""


class Resources(dict[str, Any]):
    """A resource that is not set is None; durations have their own type, and soft_walltime may be at most walltime."""

    def __missing__(self, name: str) -> None:
        return None

    def __setitem__(self, name: str, value: Any) -> None:
        assert name == "soft_walltime" and type(value) is Duration and 0 < value <= self["walltime"]
        super().__setitem__(name, value)


class Server:
    """The server's side of a hook: one event, and what was logged."""

    def __init__(self, table: Path, monkeypatch: pytest.MonkeyPatch, changed: tuple[str, str] = ("", "")) -> None:
        self.logged: list[str] = []
        self._table, self._changed, self._patch = table, changed, monkeypatch

    def submit(self, walltime: int | None = 7_200, requestor: str = "ann", **given: Any) -> Resources:
        """What the job asks for after the hook. It must be accepted, once, and keep all else."""
        answers: list[str] = []

        def accept() -> None:
            answers.append("accept")
            raise SystemExit

        asked = Resources({} if walltime is None else {"walltime": Duration(walltime)})
        asked.update({name: given.pop(name) for name in ("soft_walltime", "min_walltime") if name in given})
        job = SimpleNamespace(**{"Account_Name": "lab", "project": "_pbs_project_default", "Job_Name": "sim",
                                 "queue": SimpleNamespace(name="work"), "Resource_List": asked, **given})
        before = dict(vars(job))
        event = SimpleNamespace(job=job, requestor=requestor, accept=accept)
        module: Any = ModuleType("pbs")
        module.event, module.duration, module.LOG_WARNING = lambda: event, Duration, 4
        module.logmsg = lambda level, text: self.logged.append(text)
        self._patch.setitem(sys.modules, "pbs", module)
        text = HOOK.read_text().replace('"/etc/sojourn_limits.tsv"', repr(str(self._table))).replace(*self._changed)
        script = self._table.with_name("hook.py")
        script.write_text(text)
        with pytest.raises(SystemExit):
            runpy.run_path(str(script))
        assert answers == ["accept"] and vars(job) == before and asked["walltime"] == walltime
        return asked


def write(file: Path, made: float | None = None) -> Path:
    file.write_text("".join(f"{line}\n" for line in LIMITS.lines(int(time.time() if made is None else made))))
    return file


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    return Server(write(tmp_path / "limits.tsv"), monkeypatch)


@pytest.mark.parametrize(("job", "minutes"), [
    ({}, 30),
    ({"Job_Name": "other"}, 15),
    ({"Job_Name": "a | *é"}, 7),
    ({"Job_Name": "sim|work"}, 15),
    ({"queue": None}, 90),  # the default queue is not known at submission
    ({"queue": SimpleNamespace(name="other")}, 90),
    ({"Account_Name": None}, 5),  # then by project
    ({"walltime": 1_801}, 30),
    ({"walltime": 1_800}, None),  # not below the walltime
    ({"walltime": 60}, None),
    ({"walltime": None}, None),  # a default may be shorter
    ({"requestor": "bob"}, None),
    ({"Job_Name": "sim\ud800"}, None),
    ({"min_walltime": Duration(60)}, None),  # OpenPBS refuses both
])
def test_a_job_gets_a_soft_walltime_below_its_own_and_is_accepted(server: Server, job: dict[str, Any],
                                                                  minutes: int | None) -> None:
    asked = server.submit(**job)
    assert asked["soft_walltime"] == (None if minutes is None else 60 * minutes)
    assert bool(server.logged) == ("\ud800" in str(job.get("Job_Name")))  # a fault is logged


def test_a_soft_walltime_of_somebody_else_stays(server: Server) -> None:
    assert server.submit(soft_walltime=Duration(99))["soft_walltime"] == 99


@pytest.mark.parametrize("content", [
    b"", b"\x00\xff" * 900, b"made\t\ncolumns\t\n", b"made\t9e99\ncolumns\taccount\nlab\t5\n", b"lab|ann|*|*\t5\n",
    b"made\tNOW\ncolumns\taccount,user\nlab|ann\t-3\n", b"made\tNOW\ncolumns\taccount,user\nlab|ann\tnan\n",
    b"made\tNOW\ncolumns\taccount,user\nlab|ann\t0\n", b"made\tNOW\ncolumns\taccount,user\nlab|ann\t5\t5\n",
    b"made\tNOW\nlab|ann\t5\n\t5\n", b"made\tNOW\ncolumns\t,\n\t5\n",
])
def test_a_damaged_table_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    file = tmp_path / "limits.tsv"
    file.write_bytes(content.replace(b"NOW", b"%d" % time.time()))
    assert Server(file, monkeypatch).submit() == {"walltime": 7_200}


def test_without_a_table_and_with_an_old_one_nothing_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = Server(tmp_path / "gone", monkeypatch)
    assert without.submit() == {"walltime": 7_200} and "FileNotFoundError" in without.logged[0]
    old = Server(write(tmp_path / "old.tsv", time.time() - 8 * 86_400), monkeypatch)
    assert old.submit() == {"walltime": 7_200} and old.logged == []


def test_a_fault_within_the_hook_is_logged_and_the_job_is_accepted(tmp_path: Path,
                                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    faulty = Server(write(tmp_path / "limits.tsv"), monkeypatch, ("columns, minutes = read_table()", "broken()"))
    assert faulty.submit() == {"walltime": 7_200}
    assert len(faulty.logged) == 1 and "NameError" in faulty.logged[0]
