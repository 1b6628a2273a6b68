"""The read report: counts add up, examples are capped, refused rows reach the disk."""

from pathlib import Path

import numpy as np
import pandas as pd

from sojourn.features.read_report import ReadLedger


def seven_refused() -> ReadLedger:
    ledger = ReadLedger()
    ledger.read(10)
    ledger.refuse("negative size", "a.csv", np.arange(2, 8), [f"row {i}" for i in range(2, 8)])
    ledger.refuse("negative size", "b.csv", np.array([4]), ["x" * 500])
    return ledger


def test_counts_add_up_and_rules_merge_over_files() -> None:
    report = seven_refused().report(n_kept=3)
    # 6 of a.csv and 1 of b.csv under one rule; 10 read = 3 kept + 7 refused.
    assert report.refused == {"negative size": 7}
    assert report.n_read == report.n_kept + report.n_refused == 10


def test_examples_are_capped_at_five_and_the_whole_list_is_kept() -> None:
    report = seven_refused().report(n_kept=3)
    assert report.examples("negative size") == [f"a.csv line {i}: row {i}" for i in range(2, 7)]
    assert len(report.rejected) == 7
    assert report.rejected["raw"].iloc[-1] == "x" * 500


def test_repairs_of_nothing_are_not_reported() -> None:
    ledger = ReadLedger()
    ledger.repair("sorted", 0)
    ledger.repair("filled", 2)
    ledger.repair("filled", 3)
    assert ledger.report(0).repaired == {"filled": 5}


def test_text_is_aligned() -> None:
    lines = [line for line in seven_refused().report(3).lines() if not line.startswith("    ")]
    assert len({len(line) for line in lines}) == 1


def test_rejected_rows_are_written_beside_the_trace(tmp_path: Path) -> None:
    report = seven_refused().report(n_kept=3)
    path = report.write_rejected(tmp_path)
    assert path == tmp_path / "rejected.parquet"
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "rejected.parquet"), report.rejected)


def test_nothing_is_written_where_nothing_was_refused(tmp_path: Path) -> None:
    assert ReadLedger().report(0).write_rejected(tmp_path) is None
    assert list(tmp_path.iterdir()) == []
