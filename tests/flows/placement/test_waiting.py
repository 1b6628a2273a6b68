"""`sojourn lab eta`: tables and squeue's output to starts, in each format; what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from sojourn.flows.cli import app
from sojourn.flows.placement.waiting import read_waiting
from sojourn.models.curve_table import drawn_left
from sojourn.serving import Predictor
from sojourn.serving.bundle import example_bundle

SQUEUE = """\
JOBID|STATE|CPUS|TIME_LIMIT|SUBMIT_TIME|START_TIME|TIME|USER|ACCOUNT|PARTITION|QOS|NAME
101|RUNNING|64|1-00:00:00|2026-11-27T01:00:00|2026-11-27T02:00:00|3:00:00|ann|phys|batch|normal|relax
102|RUNNING|32|12:00:00|2026-11-27T01:30:00|2026-11-27T03:00:00|2:00:00|bob|chem|batch|normal|md | two
103|PENDING|64|6:00:00|2026-11-27T04:00:00|N/A|0:00|ann|phys|batch|normal|relax
104|PENDING|32|UNLIMITED|2026-11-27T04:10:00|2026-11-28T09:00:00|0:00|bob|chem|batch|normal|md
105_1|PENDING|16|30:00|2026-11-27T04:20:00|N/A|0:00|cat|bio|batch|normal|blast
106|COMPLETED|16|30:00|2026-11-27T04:20:00|2026-11-27T04:20:00|0:10|cat|bio|batch|normal|blast
"""
TABLE = """\
job_id,processors,limit_s,waited_s,uptime_s,owner
101,64,86400,,10800,ann
102,32,43200,,7200,bob
103,64,21600,3600,,ann
104,32,,3000,,bob
105_1,16,1800,2400,,cat
"""


def eta(folder: Path, text: str, *options: str, name: str = "jobs.csv", processors: int = 128) -> tuple[int, str, str]:
    (folder / name).write_text(text)
    found = CliRunner().invoke(app, ["lab", "eta", str(folder / name), "--bundle", str(example_bundle()),
                                     "--processors", str(processors), *options])
    return found.exit_code, found.stdout, found.stderr


def test_squeue_and_a_table_say_the_same(tmp_path: Path) -> None:
    code, of_squeue, told = eta(tmp_path, SQUEUE, "--json", name="squeue.txt")
    assert code == 0
    assert "1 of 5 jobs have no limit: they count with a year" in told
    assert "left out, neither waiting nor running: 1 COMPLETED" in told
    rows = [json.loads(line) for line in of_squeue.splitlines()]
    assert [row["job_id"] for row in rows] == ["105_1", "103", "104"]
    first, second, third = rows
    assert (first["low_s"], first["high_s"], first["by_limits_s"], first["waited_s"]) == (0, 0, 0, 2400)
    assert 0 < second["low_s"] < second["median_s"] < second["high_s"] <= second["by_limits_s"] == 36_000
    assert third["by_limits_s"] == 36_000 + 21_600
    assert eta(tmp_path, TABLE, "--json")[1] == of_squeue


def test_files_by_ending(tmp_path: Path) -> None:
    for ending, words in ((".csv", "job_id,processors,waited_s,low_s"), (".json", '"job_id": "103"'),
                          (".prom", 'sojourn_job_start_seconds{job="103",quantile="limits"} 36000')):
        code, printed, _ = eta(tmp_path, TABLE, "--out", str(tmp_path / f"starts{ending}"))
        assert code == 0
        assert max(map(len, printed.splitlines())) <= 80
        assert words in (tmp_path / f"starts{ending}").read_text()


HOLDER = """\
JOBID|STATE|CPUS|TIME_LIMIT|SUBMIT_TIME|START_TIME|TIME
1|RUNNING|90|1:00:00|2026-01-05T09:00:00|2026-01-05T09:30:00|30:00
2|PENDING|80|1:00:00|2026-01-05T09:40:00|N/A|0:00
"""


@pytest.mark.parametrize("state", ["RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED"])
def test_states_in_which_a_run_goes_on_hold_processors(tmp_path: Path, state: str) -> None:
    found = eta(tmp_path, HOLDER.replace("RUNNING", state), "--json", name="q.txt", processors=100)[1]
    assert json.loads(found)["by_limits_s"] == 1_800


def test_what_is_assumed_is_told(tmp_path: Path) -> None:
    endless = HOLDER.replace("90|1:00:00", "90|UNLIMITED")
    code, found, told = eta(tmp_path, endless, "--json", name="q.txt", processors=100)
    row = json.loads(found)
    assert code == 0
    assert row["by_limits_s"] == 365 * 86_400 - 1_800
    assert row["high_s"] > 1_800  # the model's time, not that of the largest limit in the file
    assert "1 of 2 jobs have no limit: they count with a year" in told
    late = eta(tmp_path, HOLDER.replace("|30:00", "|2:30:00"), "--json", name="q.txt", processors=100)
    assert json.loads(late[1])["by_limits_s"] == 1
    assert "1 of 2 jobs have run past their limit: they count as ending in a second" in late[2]
    wide = eta(tmp_path, HOLDER.replace("|80|", "|800|"), name="q.txt", processors=100)
    assert wide[0] == 0
    assert "1 of 2 jobs ask for more than the machine's 100 processors: left out" in wide[2]
    alone = eta(tmp_path, HOLDER.replace("1|RUNNING", "1|REQUEUE_HOLD"), "--json", name="q.txt", processors=100)
    assert "no job runs: the latest SUBMIT_TIME counts as now" in alone[2]
    assert "left out, neither waiting nor running: 1 REQUEUE_HOLD" in alone[2]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    options = ["--bundle", str(example_bundle()), "--processors", "4"]
    found = CliRunner().invoke(app, ["lab", "eta", str(tmp_path), *options])
    assert found.exit_code == 2
    assert "jobs must be a file that is there" in " ".join(found.stderr.split())


def test_nothing_waits(tmp_path: Path) -> None:
    assert "no job waits" in eta(tmp_path, "\n".join(TABLE.splitlines()[:3]) + "\n")[1]


@pytest.mark.parametrize(("text", "name", "words"), [
    (TABLE, "64", "running jobs must fit on the machine's 64 processors, got 96"),
    (TABLE.replace("3600,,ann", ",,ann"), "", "line 4: waited_s must be a number if uptime_s is missing"),
    (TABLE.replace("103,64", "102,64"), "", "job_id must be unique, got '102'"),
    (TABLE.replace(",7200", ",x"), "", "line 3: uptime_s must be"),
    (TABLE.replace("103,64", "103,1.5"), "", "line 4: processors must be a whole number from 1 on, got 1.5"),
    (TABLE.replace("103,64", "103,0"), "", "line 4: processors must be a whole number from 1 on, got 0"),
    (TABLE.splitlines()[0] + "\n", "", "jobs must be at least one"),
    (SQUEUE.replace("|TIME|", "|LEFT|"), "", "line 1: must have the fields TIME"),
    (SQUEUE.replace("3:00:00", "3 h"), "", "line 2: TIME must be as squeue prints it, got '3 h'"),
    (SQUEUE.replace("|normal|blast", ""), "", "line 6: must have 12 fields"),
    (SQUEUE.replace("105_1", "105_[1-4]"), "", "line 6: JOBID must be one job, got the array '105_[1-4]'; print it"),
])
def test_bad_input_is_named(tmp_path: Path, text: str, name: str, words: str) -> None:
    code, _, told = eta(tmp_path, text, processors=int(name or 128), name="squeue.txt" if "|" in text else "jobs.csv")
    assert code == 2
    assert words in " ".join(told.split())


def test_out_is_no_file_that_is_read(tmp_path: Path) -> None:
    assert "no file of the snapshot" in " ".join(eta(tmp_path, TABLE, "--out", str(tmp_path / "jobs.csv"))[2].split())
    assert "must end in .csv, .json or .prom" in eta(tmp_path, TABLE, "--out", str(tmp_path / "a.txt"))[2]


def test_running_jobs_are_predicted_at_their_age(tmp_path: Path) -> None:
    (tmp_path / "jobs.csv").write_text(TABLE)
    queue = read_waiting(tmp_path / "jobs.csv", Predictor.load(example_bundle()), 128, 1_600_000_000)
    assert queue.now.uptime_s.tolist() == [10_800, 7_200, 0, 0, 0]
    assert (queue.now.now_s - queue.now.submission_s)[2:].tolist() == [3_600, 3_000, 2_400]
    assert queue.owner.tolist() == [0, 1, 0, 1, 2]


def test_draws_have_the_curves_quantiles_and_owners_are_alike() -> None:
    def quantile(share: float) -> np.ndarray:
        return np.full(4, 1_000.0 * share)

    drawn = drawn_left(quantile, 2_000, np.array([5, 5, 7, -1]), alike=0.9)
    assert np.quantile(drawn, [0.1, 0.5, 0.9], axis=0) == pytest.approx(np.tile([[100], [500], [900]], 4), abs=30)
    related = np.corrcoef(drawn.T)
    assert related[0, 1] > 0.85
    assert np.abs(related[0, [2, 3]]).max() < 0.1
    assert (drawn_left(quantile, 5, np.array([0, 0, 1, 1])) == drawn_left(quantile, 5, np.array([0, 0, 1, 1]))).all()
    assert drawn_left(lambda share: np.zeros(0), 5, np.zeros(0, int)).shape == (5, 0)
