"""The azure-flavors reader: bins, draws within them, batches, and what is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from made_files import DURATION_BINS, FLAVORS, flavors_folder, flavors_table
from mutations import EDITS, Edits, check_read_or_refused, mutated
from sojourn.features.readers import azure_flavors, read_trace

DATA = Path(__file__).parents[4] / "shared" / "data" / "azure-2017-v1-flavors"


def test_rows(tmp_path: Path) -> None:
    trace, report = read_trace("azure-flavors", flavors_folder(tmp_path / "f"))
    rows = trace.requests
    # Time 0 is the first arrival, 3,600; the end 10,500 + 300 stands at 7,200.
    assert trace.horizon_s == 7200 and trace.meta["origin_s"] == 3600
    assert rows["arrival_s"].tolist() == [0, 0, 0, 3600, 3600, 6900]
    assert trace.is_event().tolist() == [True, True, False, True, True, True]
    assert rows[["cpu_cores", "mem_gib"]].values.tolist()[:2] == [[1.0, 1.75], [4.0, 7.0]]
    # Bin 3 is 3,900 .. 7,200 on a grid of 300 s: [3900, 7500); bin 0 is [0, 300).
    assert rows[["lifetime_lo_s", "lifetime_hi_s"]].values.tolist()[:2] == [[0, 300], [3900, 7500]]
    assert rows["batch"].astype(str).tolist() == ["0", "1", "1", "2", "2", "3"]
    assert rows["batch_position"].tolist() == [0, 0, 1, 0, 1, 0]
    assert (trace.roles.owners, trace.roles.categories, trace.roles.numbers) == (
        ("batch",), ("flavor",), ("batch_position",))
    assert report.n_read == 6 and not report.refused and not report.repaired


def test_lifetimes_are_uniform_within_their_bin_and_end_before_the_horizon(tmp_path: Path) -> None:
    n = 4_000
    table = pd.DataFrame({"arrival_s": np.zeros(2 * n, int), "batch": np.arange(2 * n) // 4, "flavor": "a",
                          "censored": False, "dur_bin": np.repeat([1, 3], n)})
    trace, _ = read_trace("azure-flavors", flavors_folder(tmp_path / "f", table), end_s=6900)
    lifetime_s = trace.lifetime_s()
    # Bin 1 is [300, 600); bin 3 is [3900, 7500), cut at the end 6,900: [3900, 6900).
    for drawn, lo, hi in ((lifetime_s[:n], 300, 600), (lifetime_s[n:], 3900, 6900)):
        share = (np.sort(drawn) - lo) / (hi - lo)
        assert share[0] >= 0 and share[-1] < 1
        # Kolmogorov-Smirnov distance: above 1.95 / sqrt(n) in one of a thousand uniform samples.
        assert np.abs(share - (np.arange(n) + 0.5) / n).max() < 1.95 / np.sqrt(n)


def test_a_draw_depends_on_seed_batch_and_position_only(tmp_path: Path) -> None:
    def lifetimes(name: str, table: pd.DataFrame, seed: int = 0) -> dict[tuple[str, float], int]:
        trace, _ = read_trace("azure-flavors", flavors_folder(tmp_path / name, table), end_s=10_800, seed=seed)
        keys = zip(trace.requests["batch"].astype(str), trace.requests["batch_position"], strict=True)
        return dict(zip(keys, trace.lifetime_s().tolist(), strict=True))

    whole = flavors_table()
    expected = lifetimes("whole", whole)
    turned = whole.iloc[[5, 3, 4, 1, 2, 0]]
    assert lifetimes("turned", turned) == expected
    fewer = lifetimes("fewer", whole.iloc[1:])
    assert fewer == {key: value for key, value in expected.items() if key != ("0", 0)}
    assert lifetimes("again", whole) == expected != lifetimes("other", whole, seed=1)


def test_blocks_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = flavors_folder(tmp_path / "f")
    whole, _ = read_trace("azure-flavors", folder)
    monkeypatch.setattr(azure_flavors, "BLOCK_LINES", 2)
    pd.testing.assert_frame_equal(read_trace("azure-flavors", folder)[0].requests, whole.requests)


@pytest.mark.parametrize(("changed", "rule"), [
    ({"arrival_s": [-300, *[3600] * 2, 7200, 7200, 10500]}, "time outside 0 .. 100 years"),
    ({"batch": [-1, 1, 1, 2, 2, 3]}, "batch not a whole number >= 0"),
    ({"batch": [0, 1, 1, 2, 2, 0]}, "batch of another arrival"),
    ({"flavor": ["q", "b", "b", "a", "b", "a"]}, "flavor not in flavors.csv"),
    ({"flavor": [None, "b", "b", "a", "b", "a"]}, "flavor not in flavors.csv"),
    ({"dur_bin": [9, 3, 3, 2, 1, 0]}, "dur_bin not in duration_bins.csv"),
    ({"dur_bin": [None, 3, 3, 2, 1, 0]}, "dur_bin not a number"),
    ({"censored": [None, False, True, False, False, False]}, "censored neither True nor False"),
    ({"dur_bin": [0, 3, 3, 2, 3, 0]}, "departure after the end"),
    ({"censored": [True, False, True, False, False, False]}, "censored before or after the end"),
])
def test_a_row_is_refused_by_its_rule(tmp_path: Path, changed: dict[str, list[object]], rule: str) -> None:
    trace, report = read_trace("azure-flavors", flavors_folder(tmp_path / "f", flavors_table(**changed)))
    assert dict(report.refused) == {rule: 1} and len(trace) == 5
    assert report.rejected["file"].tolist() == ["dev.parquet"]


def test_a_clock_that_runs_backwards_is_sorted_and_counted(tmp_path: Path) -> None:
    table = flavors_table().iloc[[5, 0, 1, 2, 3, 4]]
    trace, report = read_trace("azure-flavors", flavors_folder(tmp_path / "f", table))
    assert dict(report.repaired) == {"arrival before the row above: sorted": 1}
    assert trace.requests["request_id"].tolist() == [1, 2, 3, 4, 5, 0]


def test_rows_after_a_given_end_are_refused(tmp_path: Path) -> None:
    folder = flavors_folder(tmp_path / "f", flavors_table(censored=[False] * 6))
    _, report = read_trace("azure-flavors", folder, end_s=10_500)
    assert dict(report.refused) == {"arrival at or after the end": 1}
    with pytest.raises(ValueError, match=r"end_s must .*, got 300"):
        read_trace("azure-flavors", folder, end_s=300)


def test_files_that_are_not_the_format_raise(tmp_path: Path) -> None:
    folder = flavors_folder(tmp_path / "f")
    flavors_table().drop(columns=["censored", "dur_bin"]).to_parquet(folder / "train.parquet")
    with pytest.raises(ValueError, match=r"train\.parquet must be .* got no censored, dur_bin: without lifetimes"):
        read_trace("azure-flavors", folder, part="train")
    flavors_table().astype({"arrival_s": float}).to_parquet(folder / "float.parquet")
    with pytest.raises(ValueError, match=r"float\.parquet: arrival_s must be whole numbers, got double"):
        read_trace("azure-flavors", folder / "float.parquet")
    flavors_table().iloc[:0].astype({"arrival_s": int}).to_parquet(folder / "empty.parquet")
    with pytest.raises(ValueError, match=r"empty\.parquet: must hold at least one VM with an arrival_s"):
        read_trace("azure-flavors", folder, part="empty")
    flavors_table(flavor=["q"] * 6).to_parquet(folder / "none.parquet")
    with pytest.raises(ValueError, match=r"must hold at least one VM, got none; refused: \{'flavor not in"):
        read_trace("azure-flavors", folder, part="none")


@pytest.mark.parametrize(("file", "text", "message"), [
    ("flavors.csv", FLAVORS + "a,1,1\n", r"flavors\.csv: line 4 must be a good row, got duplicate flavor: 'a,1,1'"),
    ("flavors.csv", FLAVORS + "c,-1,1\n", "line 4 must be a good row, got negative size"),
    ("flavors.csv", "name,cores\na,1\n", r"flavors\.csv: line 1 must have the columns flavor, vcpu, memory_gb"),
    ("duration_bins.csv", DURATION_BINS + "4,900,600\n", "line 6 must be a good row, got edges not 0 <= lo <= hi"),
    ("duration_bins.csv", DURATION_BINS + "3,900,1200\n", "line 6 must be a good row, got duplicate bin"),
    ("duration_bins.csv", DURATION_BINS + "4,x,600\n", "line 6 must be a good row, got dur_lo_s not a number"),
])
def test_a_side_table_with_a_bad_row_raises(tmp_path: Path, file: str, text: str, message: str) -> None:
    folder = flavors_folder(tmp_path / "f")
    (folder / file).write_text(text)
    with pytest.raises(ValueError, match=message):
        read_trace("azure-flavors", folder)


@settings(max_examples=25)
@given(edits=EDITS, name=st.sampled_from(["dev.parquet", "dev.parquet", "flavors.csv", "duration_bins.csv"]))
def test_mutated_files_are_read_or_refused_never_worse(tmp_path: Path, edits: Edits, name: str) -> None:
    folder = flavors_folder(tmp_path / "f")
    (folder / name).write_bytes(mutated((folder / name).read_bytes(), edits))
    check_read_or_refused("azure-flavors", folder)


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not beside the repository")
def test_real_counts() -> None:
    trace, report = read_trace("azure-flavors", DATA)
    assert (report.n_read, report.n_kept, trace.horizon_s) == (259_159, 259_159, 300_000)
    assert round(float((~trace.is_event()).mean()), 3) == 0.055
    assert trace.requests["arrival_s"].max() == 2_099_700 - 1_800_000
    lifetime_s = trace.lifetime_s()
    # README: median 25 min on the grid of 5 minutes, of which a draw adds half a step.
    assert 25 * 60 <= np.median(lifetime_s) < 30 * 60
    lo, hi = trace.requests["lifetime_lo_s"].to_numpy(), trace.requests["lifetime_hi_s"].to_numpy()
    assert ((lo <= lifetime_s) & (lifetime_s < hi)).all()
    with pytest.raises(ValueError, match="without lifetimes it is no trace of requests"):
        read_trace("azure-flavors", DATA, part="train")
