"""examples/slurm/job_submit.lua in real Lua, 5.1 as Debian's Slurm has it, and 5.4; `slurm` is made here.

What a real Slurm did with it is in examples/slurm/advice.out, which `slurm.sh advise` wrote.
"""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from learnt_bundle import Learnt
from sojourn.flows.annotation.bounds import LimitTable, Replayed, limit_table
from sojourn.serving import load_bundle

SCRIPT = Path(__file__).parents[3] / "examples" / "slurm" / "job_submit.lua"
NO_VAL, INFINITE = 0xFFFFFFFE, 0xFFFFFFFF
PARTS = {"main": {"flag_default": 1, "max_time": 60, "default_time": NO_VAL},
         "short": {"flag_default": 0, "max_time": 60, "default_time": 5},
         "open": {"flag_default": 0, "max_time": INFINITE, "default_time": 5}}
LIMITS = LimitTable(("account", "user", "job_name", "partition"), {
    "lab|ann|sim|main": 30, "lab|ann|*|main": 15, "lab|ann|*|*": 90}, 0.9)


class Controller:
    """A Slurm controller's side of the plugin."""

    def __init__(self, lua: str, table: Path, changed: Callable[[str], str] = str) -> None:
        self.told: list[str] = []
        self.logged: list[str] = []
        runtime = importlib.import_module(f"lupa.{lua}").LuaRuntime(unpack_returned_tuples=True)
        self._table = runtime.table_from
        slurm = {"NO_VAL": NO_VAL, "INFINITE": INFINITE, "SUCCESS": 0,
                 "log_user": self._says(runtime, self.told), "log_info": self._says(runtime, self.logged)}
        runtime.globals().slurm = self._table(slurm)
        text = SCRIPT.read_text().replace('os.getenv("SOJOURN_LIMITS")', f'"{table}"')
        assert runtime.execute(changed(text)) == 0
        self.submit_function = runtime.globals().slurm_job_submit
        self.modify_function = runtime.globals().slurm_job_modify

    @staticmethod
    def _says(runtime: Any, lines: list[str]) -> Any:
        """Slurm formats with string.format."""
        return runtime.eval("function(add) return function(...) add(string.format(...)) end end")(lines.append)

    def submit(self, **job: Any) -> dict[str, Any]:
        given = self._table({"account": "lab", "user_name": "ann", "name": "sim", "time_limit": NO_VAL, **job})
        parts = self._table({name: self._table(part) for name, part in PARTS.items()})
        assert self.submit_function(given, parts, 1000) == 0
        return dict(given)


def write(file: Path, table: LimitTable, made: float | None = None) -> Path:
    file.write_text("".join(f"{line}\n" for line in table.lines(int(time.time() if made is None else made))))
    return file


@pytest.fixture(params=["lua51", "lua54"])
def lua(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def controller(lua: str, tmp_path: Path) -> Controller:
    return Controller(lua, write(tmp_path / "limits.tsv", LIMITS))


def filling(text: str) -> str:
    return text.replace("local FILL = false", "local FILL = true")


@pytest.mark.parametrize(("job", "comment", "told"), [
    ({"time_limit": 10}, "00:30:00", "the time limit of 00:10:00 may be too short"),
    ({"time_limit": 30}, "00:30:00", None),
    ({"time_limit": 60}, "00:30:00", None),
    ({"time_limit": 61}, "00:30:00", "a shorter limit than 01:01:00 may let the job start earlier"),
    ({}, "00:30:00", "no time limit was given"),
    ({"time_limit": INFINITE}, "00:30:00", "no time limit was given"),
    ({"name": "other", "time_limit": 15}, "00:15:00", None),  # by user and partition
    ({"partition": "open", "time_limit": 90}, "01:30:00", None),  # by user
    ({"partition": "main,short", "time_limit": 90}, "01:30:00", None),
    ({"account": None, "default_account": "lab", "time_limit": 30}, "00:30:00", None),
])
def test_a_job_gets_advice_and_keeps_its_limit(controller: Controller, job: Mapping[str, Any], comment: str,
                                               told: str | None) -> None:
    found = controller.submit(**job)
    said = f"90 % of such jobs end within {comment}"
    assert found["admin_comment"] == f"sojourn: {said}"
    assert found["time_limit"] == job.get("time_limit", NO_VAL)
    assert controller.told == ([] if told is None else [f"sojourn: {said}; {told}"])
    assert controller.logged == []


@pytest.mark.parametrize("job", [{"user_name": "bob"}, {"account": "other"}, {"user_name": None}, {"account": None}])
def test_a_job_of_which_nothing_is_predicted_passes_unchanged(controller: Controller, job: Mapping[str, Any]) -> None:
    given = {"account": "lab", "user_name": "ann", "name": "sim", "time_limit": 7, **job}
    assert controller.submit(**given) == {name: value for name, value in given.items() if value is not None}
    assert controller.told == controller.logged == []


def test_a_comment_of_somebody_else_stays(controller: Controller) -> None:
    assert controller.submit(admin_comment="billing: x")["admin_comment"] == "billing: x"


@pytest.mark.parametrize(("job", "limit"), [
    ({"partition": "open"}, 90),  # the default of 5 min would end 9 in 10 jobs
    ({"partition": "short"}, 60),  # not above the partition's longest
    ({"partition": "main"}, NO_VAL),  # without a default the longest counts: 30 would shorten it
    ({"partition": "open", "time_limit": 3}, 3),
    ({"partition": "open", "time_limit": 1_000}, 1_000),
    ({"partition": "open", "time_limit": INFINITE}, INFINITE),
    ({"partition": "gone"}, NO_VAL),
])
def test_filling_lengthens_a_default_and_touches_no_given_limit(lua: str, tmp_path: Path, job: Mapping[str, Any],
                                                                limit: int) -> None:
    found = Controller(lua, write(tmp_path / "limits.tsv", LIMITS), filling).submit(**job)
    assert found["time_limit"] == limit and "time_min" not in found


def test_no_limit_that_a_user_gave_is_ever_changed(lua: str, tmp_path: Path) -> None:
    for fill in (str, filling):
        controller = Controller(lua, write(tmp_path / "limits.tsv", LIMITS), fill)
        for partition in (None, *PARTS, "main,open", "gone"):
            for minutes in (0, 1, 4, 5, 6, 29, 30, 31, 60, 90, 10**6, INFINITE):
                found = controller.submit(partition=partition, time_limit=minutes)
                assert found["time_limit"] == minutes and "time_min" not in found


def planning(conf: Path) -> Callable[[str], str]:
    """Turns SOFT on, with that file as slurm.conf."""
    return lambda text: text.replace("local SOFT = false", "local SOFT = true").replace(
        'os.getenv("SLURM_CONF")', f'"{conf}"')


def test_soft_plans_with_a_shorter_prediction_and_keeps_the_users_limit(lua: str, tmp_path: Path) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text("# OverTimeLimit=0\nOverTimeLimit=UNLIMITED\nPartitionName=main overtimelimit = Unlimited\n")
    controller = Controller(lua, write(tmp_path / "limits.tsv", LIMITS), planning(conf))
    found = controller.submit(time_limit=60)
    assert found["time_limit"] == 30 and "time_min" not in found
    assert found["admin_comment"] == "sojourn: limit 60 min; 90 % of such jobs end within 00:30:00"
    assert controller.told == ["sojourn: 90 % of such jobs end within 00:30:00; planned with 00:30:00, "
                               "the time limit of 01:00:00 stays"]
    for kept in (1, 30, NO_VAL, INFINITE):  # not longer than predicted, or none
        assert controller.submit(time_limit=kept)["time_limit"] == kept
    assert controller.submit(time_limit=60, user_name="bob")["time_limit"] == 60
    assert controller.submit(time_limit=60, admin_comment="billing: x") == {
        "account": "lab", "user_name": "ann", "name": "sim", "time_limit": 60, "admin_comment": "billing: x"}


@pytest.mark.parametrize("conf", [
    "", "OverTimeLimit=0\n", "OverTimeLimit=60\n", "#OverTimeLimit=UNLIMITED\n",
    "ClusterName=toy # OverTimeLimit=UNLIMITED\n",
    "OverTimeLimit=UNLIMITED\nPartitionName=main Nodes=ALL OverTimeLimit=0\n",
    "PartitionName=main Nodes=ALL OverTimeLimit=UNLIMITED\n",  # other partitions have the cluster's, which is 0
    "PartitionName=main Nodes=ALL \\\nOverTimeLimit=UNLIMITED\n",
    "OverTimeLimit=UNLIMITED\ninclude /etc/slurm/more.conf\n",
    "PartitionName=main Nodes=ALL \\\n  OverTimeLimit=5 State=UP\nOverTimeLimit=UNLIMITED\n", None])
def test_soft_changes_no_limit_at_which_slurm_would_kill(lua: str, tmp_path: Path, conf: str | None) -> None:
    file = tmp_path / "slurm.conf"
    if conf is not None:
        file.write_text(conf)
    found = Controller(lua, write(tmp_path / "limits.tsv", LIMITS), planning(file)).submit(time_limit=60)
    assert found["time_limit"] == 60 and found["admin_comment"] == "sojourn: 90 % of such jobs end within 00:30:00"


@pytest.mark.parametrize("content", [
    b"", b"\x00\xff" * 900, b"made\t\nlevel\tx\ncolumns\t\n", b"made\t9e99\nlevel\t0.9\nlab|ann|*|*\t5\n",
    b"lab|ann|*|*\t5\n", b"made\tnan\nlevel\t0.9\ncolumns\taccount\nlab\t5\n",
    b"made\t%d\nlevel\t0.9\ncolumns\taccount,user\nlab|ann\t-3\n", b"made\t%d\ncolumns\taccount,user\nlab|ann\tnan\n",
])
def test_a_damaged_table_gives_no_advice(lua: str, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "limits.tsv"
    file.write_bytes(content.replace(b"%d", b"%d" % time.time()))
    found = Controller(lua, file).submit(time_limit=10)
    assert found["time_limit"] == 10 and "admin_comment" not in found


def test_without_a_table_and_with_an_old_one_there_is_no_advice(lua: str, tmp_path: Path) -> None:
    assert "admin_comment" not in Controller(lua, tmp_path / "gone").submit()
    old = write(tmp_path / "old.tsv", LIMITS, time.time() - 8 * 86_400)
    assert "admin_comment" not in Controller(lua, old).submit()


def test_a_fault_within_the_script_is_logged_and_the_job_passes(lua: str, tmp_path: Path) -> None:
    controller = Controller(lua, write(tmp_path / "limits.tsv", LIMITS), lambda text: text.replace(
        "local function said(minutes)", 'local function said(minutes)\n    error("broken")'))
    assert controller.submit(time_limit=10)["time_limit"] == 10
    assert len(controller.logged) == 1 and controller.logged[0].endswith("broken")


def test_a_modified_job_is_left_alone(controller: Controller) -> None:
    assert controller.modify_function({}, {}, {}, 0) == 0


def test_the_script_finds_what_the_table_holds(lua: str, learnt: Learnt, tmp_path: Path) -> None:
    """Every request of a trace, looked up by the script in the file and by Python in the table."""
    requests = learnt.trace.requests
    strange = requests["deployment"].map(lambda name: f"run {name}|* é")
    trace = type(learnt.trace)(requests.assign(user=requests["subscription"], job_name=strange, account="lab"),
                               learnt.trace.horizon_s, learnt.trace.roles, meta=learnt.trace.meta)
    table = limit_table(Replayed.of(load_bundle(learnt.folder), trace), 0.9)
    controller = Controller(lua, write(tmp_path / "limits.tsv", table))
    some = trace.requests.iloc[::20]
    found = []
    for account, user, name in zip(some["account"], some["user"], some["job_name"], strict=True):
        comment = controller.submit(account=account, user_name=user, name=name).get("admin_comment")
        hours, minutes = (0, 0) if comment is None else map(int, re.findall(r"(\d+):(\d+):00", comment)[0])
        found.append(np.nan if comment is None else 3_600.0 * hours + 60.0 * minutes)
    np.testing.assert_array_equal(found, table.of(some))
    assert 0.2 < np.isnan(found).mean() < 0.9 or not np.isnan(found).any()


def test_a_real_slurm_kept_every_limit() -> None:
    """The recorded run: the limit asked for with -t is the limit that the job has."""
    asked = re.findall(r"^\$ sbatch .*-t (\d+)\n(?:  told: .*\n)?  TimeLimit=(\d+):(\d+):00", SCRIPT.with_name(
        "advice.out").read_text(), flags=re.MULTILINE)
    assert len(asked) >= 9
    assert all(int(minutes) == 60 * int(h) + int(m) for minutes, h, m in asked)
