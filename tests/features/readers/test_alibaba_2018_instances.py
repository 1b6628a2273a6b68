"""Runs of batch instances: the columns of the public schema, and what is refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from sojourn.features.readers import read_alibaba_2018_instances

GOOD = "i_1,M1,j_1,1,Terminated,100,130,m_7,1,1,50,80,0.1,0.2"


def test_runs_of_one_instance_stand_together_in_the_order_of_time(tmp_path: Path) -> None:
    rows = ["i_1,M1,j_1,1,Terminated,150,200,m_9,2,2,60,40,0.1,0.2", "i_2,M1,j_1,1,Running,120,0,m_7,1,1,,,,",
            "i_1,M1,j_1,1,Interrupted,100,130,m_7,1,2,50,80,0.1,0.2"]
    (tmp_path / "batch_instance.csv.gz").write_bytes(gzip.compress("\n".join(rows).encode()))
    runs, report = read_alibaba_2018_instances(tmp_path)
    assert runs["instance"].tolist() == ["j_1/M1/i_1", "j_1/M1/i_1", "j_1/M1/i_2"]
    assert runs["status"].tolist() == ["Interrupted", "Terminated", "Running"]
    assert runs["end_s"].fillna(-1).tolist() == [130, 200, -1]
    assert runs["cpu_avg"].tolist() == [0.5, 0.6, 0.0]
    assert runs["cpu_max"].tolist() == [0.8, 0.6, 0.0]  # a maximum below the mean becomes the mean
    assert dict(report.repaired) == {"use missing: 0 taken": 1}


@pytest.mark.parametrize(("row", "rule"), [
    ("i_2,M1,j_1,1,Waiting,100,130,m_7,1,1,50,80,0.1,0.2", "never ran (Waiting or Ready)"),
    ("i_2,M1,j_1,1,Odd,100,130,m_7,1,1,50,80,0.1,0.2", "status unknown"),
    ("i_2,M1,j_1,1,Failed,100,130,,1,1,50,80,0.1,0.2", "machine missing"),
    ("i_2,M1,j_1,1,Failed,100,90,m_7,1,1,50,80,0.1,0.2", "end before start"),
    ("i_2,M1,j_1,1,Failed,0,90,m_7,1,1,50,80,0.1,0.2", "start missing (0)"),
    ("i_2,M1,j_1,1,Failed,100,130,m_7,1,1,-5,80,0.1,0.2", "negative use"),
    ("i_2,M1,,1,Failed,100,130,m_7,1,1,50,80,0.1,0.2", "name missing"),
    ("i_1,M1,j_1,1,Failed,300,330,m_7,1,1,50,80,0.1,0.2", "duplicate run"),
])
def test_rows_that_are_refused(tmp_path: Path, row: str, rule: str) -> None:
    path = tmp_path / "batch_instance.csv"
    path.write_text(f"{GOOD}\n{row}\n")
    runs, report = read_alibaba_2018_instances(path)
    assert runs["instance"].tolist() == ["j_1/M1/i_1"]
    assert report.refused.keys() == {rule}


def test_a_file_without_a_run_and_a_folder_without_the_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="must hold batch_instance"):
        read_alibaba_2018_instances(tmp_path)
    path = tmp_path / "batch_instance.csv"
    path.write_text(GOOD.replace("Terminated", "Ready") + "\n")
    with pytest.raises(ValueError, match="must hold at least one run of an instance, got none"):
        read_alibaba_2018_instances(path)
