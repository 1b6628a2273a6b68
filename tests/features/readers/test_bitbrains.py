"""The bitbrains reader: who ran beyond the month's edges, and usage that is refused sample by sample."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from made_files import bitbrains_folder, bitbrains_meta, bitbrains_usage
from mutations import EDITS, Edits, mutated
from sojourn.features.readers import read_trace

DATA = Path(__file__).parents[4] / "shared" / "data" / "bitbrains-rnd"


def test_rows(tmp_path: Path) -> None:
    dated, report = read_trace("bitbrains", bitbrains_folder(tmp_path / "b"))
    trace = dated.since_begin()
    rows = trace.requests.set_index("request_id")
    assert (dated.begin_s, dated.horizon_s, dated.meta["start_unix_s"]) == (1_000_000, 1_002_400, 1_000_000)
    # VM 1 and 3 are seen within 600 s of the start, 1 and 2 within 600 s of the end.
    assert rows["arrival_s"].dropna().to_dict() == {2: 1200} and rows["departure_s"].dropna().to_dict() == {3: 1500}
    assert rows[["cpu_cores", "mem_gib", "core_mhz"]].values.tolist()[2] == [4.0, 8.0, 2600.0]
    assert trace.usage is not None
    assert trace.usage["time_s"].tolist() == [0, 300, 2100, 1200, 2400, 300, 1500]
    assert trace.usage["cpu_frac"].tolist() == [0.015, 0.0, 1.82, 0.5, 1.0, 0.0025, 0.04]
    # The row of August is of another trace.
    assert (report.n_read, report.n_kept, report.n_joined, report.n_refused) == (10, 3, 7, 0)


def test_options(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = bitbrains_folder(tmp_path / "b")
    assert len(read_trace("bitbrains", folder / "rnd_2013-7.parquet", month="ignored")[0]) == 3
    assert read_trace("bitbrains", folder, usage=False)[0].usage is None
    monkeypatch.setattr("sojourn.features.readers.bitbrains.MAX_USAGE_ROWS", 6)
    assert read_trace("bitbrains", folder)[0].usage is None
    assert read_trace("bitbrains", folder, usage=True)[0].usage is not None
    with pytest.raises(FileNotFoundError, match=r"must hold rnd_2013-9\.parquet, got rnd_2013-7\.parquet"):
        read_trace("bitbrains", folder, month="2013-9")


@pytest.mark.parametrize(("column", "value", "rule"), [
    ("vm", 1.5, "vm not a whole number"),
    ("vm", 1, "duplicate vm"),
    ("cores", -1, "negative size"),
    ("cores", np.nan, "cores not a number"),
    ("mem_cap_mb", 1e12, "size above 1e+09"),
    ("first_ts", -3, "time not a whole number in 0 .. 100 years"),
    ("last_ts", 4e9, "time not a whole number in 0 .. 100 years"),
    ("last_ts", 1_000_100, "departure before arrival"),
])
def test_a_vm_is_refused_by_its_rule_and_its_samples_with_it(tmp_path: Path, column: str, value: float,
                                                             rule: str) -> None:
    meta = bitbrains_meta()
    meta[column] = meta[column].astype("float64")
    meta.loc[2, column] = value
    trace, report = read_trace("bitbrains", bitbrains_folder(tmp_path / "b", meta=meta))
    assert dict(report.refused) == {rule: 1, "sample of a VM that is not kept": 2} and len(trace) == 2
    assert report.rejected["line"].tolist() == [3, 6, 7]


@pytest.mark.parametrize(("column", "value", "rule"), [
    ("vm", 9, "sample of a VM that is not kept"),
    ("ts", 999_999, "sample outside its VM's first .. last"),
    ("ts", 1_000_000, "sample not after the one of its VM above"),
    ("ts", None, "ts not a number"),
    ("cpu_pct", -0.1, "cpu_pct outside 0 .. 1000"),
    ("cpu_pct", 1001, "cpu_pct outside 0 .. 1000"),
    ("cpu_pct", np.inf, "cpu_pct not a number"),
])
def test_a_sample_is_refused_by_its_rule(tmp_path: Path, column: str, value: float | None, rule: str) -> None:
    usage = bitbrains_usage().astype("float64")
    usage.loc[1, column] = value
    trace, report = read_trace("bitbrains", bitbrains_folder(tmp_path / "b", usage=usage))
    assert dict(report.refused) == {rule: 1} and len(trace) == 3
    assert report.rejected[["file", "line"]].values.tolist() == [["rnd_2013-7.parquet", 2]]


def test_order_is_kept_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sojourn.features.readers._rows.record_batches.__defaults__", (2,))
    usage = bitbrains_usage()
    usage.loc[2, "ts"] = 1_000_300  # as the sample above, which stands in the block before
    report = read_trace("bitbrains", bitbrains_folder(tmp_path / "b", usage=usage))[1]
    assert dict(report.refused) == {"sample not after the one of its VM above": 1}
    assert report.rejected["line"].tolist() == [3]


def test_files_that_are_not_the_format_raise(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"must hold rnd_<month>\.parquet, got no usage file"):
        read_trace("bitbrains", tmp_path)
    folder = bitbrains_folder(tmp_path / "b")
    (folder / "rnd_2013-10.parquet").write_bytes((folder / "rnd_2013-7.parquet").read_bytes())
    with pytest.raises(ValueError, match=r"one VM of the month '2013-10', got months 2013-7, 2013-8; refused: \{\}"):
        read_trace("bitbrains", folder, month="2013-10")
    (folder / "vm_meta.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"vm_meta\.parquet"):
        read_trace("bitbrains", folder, month="2013-7")
    (folder / "rnd_2013-7.parquet").write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=r"rnd_2013-7\.parquet must be a Parquet file with the columns vm, ts, "):
        read_trace("bitbrains", folder, month="2013-7")


@pytest.mark.parametrize("name", ["vm_meta.parquet", "rnd_2013-7.parquet"])
@settings(max_examples=25)
@given(edits=EDITS)
def test_mutated_files_are_read_or_refused_never_worse(tmp_path: Path, name: str, edits: Edits) -> None:
    folder = bitbrains_folder(tmp_path / "b")
    path = folder / name
    path.write_bytes(mutated(path.read_bytes(), edits))
    try:
        trace, report = read_trace("bitbrains", folder)
    except ValueError as error:
        assert str(path) in str(error)
    else:
        assert report.n_kept == len(trace) and report.n_read >= report.n_kept + report.n_refused


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not beside the repository")
def test_real_counts() -> None:
    trace, report = read_trace("bitbrains", DATA)
    assert (report.n_kept, report.n_joined, report.n_refused) == (500, 3_818_786, 0)
    assert trace.span_s == 2_591_770
    assert (~trace.is_start_known()).sum() == 425 and not trace.is_event().any()
    assert trace.usage is not None and trace.usage["cpu_frac"].max() == pytest.approx(1.8213)
