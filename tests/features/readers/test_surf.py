"""The surf reader: a window's edges, a list of ended jobs, and usage laid end to end from fragments."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from made_files import surf_folder, surf_tables
from mutations import EDITS, Edits, mutated
from sojourn.features.readers import read_trace

DATA = Path(__file__).parents[4] / "shared" / "data" / "opendc"
RUNS_ON = "fragment after its task's end"


def only_tasks(folder: Path, tasks: pd.DataFrame) -> Path:
    path = folder / "some_tasks.parquet"
    tasks.to_parquet(path, index=False)
    return path


def test_a_table_with_fragments_is_a_window(tmp_path: Path) -> None:
    dated, report = read_trace("surf", surf_folder(tmp_path / "surf"))
    trace = dated.since_begin()
    rows = trace.requests.set_index("request_id")
    # The trace begins at 60 s; task 13 ends at 360 s, which is the end of the window.
    assert (dated.begin_s, dated.horizon_s) == (60, 360)
    assert rows.index.tolist() == [11, 12, 13, 14] and rows["arrival_s"].isna().tolist() == [True, False, False, False]
    assert rows["arrival_s"].dropna().tolist() == [30, 90, 180]
    assert rows["departure_s"].isna().tolist() == [False, False, True, False]
    assert rows["departure_s"].dropna().tolist() == [90, 90, 270]
    assert rows["mem_gib"].tolist() == [100.0] * 4 and trace.roles.columns() == ()
    assert (report.n_read, report.n_kept, report.n_joined) == (12, 4, 8)
    usage = trace.usage
    assert usage is not None
    # In file order; task 11 goes on at its 30th second after the rows of others: 0.5 and 33,600 / 32,000.
    assert usage["time_s"].tolist() == [0, 30, 60, 180, 210, 240, 30, 60]
    assert usage["cpu_frac"].tolist()[:3] == [0.0, 0.25, 1.0] and usage["cpu_frac"].tolist()[-2:] == [0.5, 1.05]


def test_a_table_without_fragments_lists_what_had_ended(tmp_path: Path) -> None:
    path = only_tasks(tmp_path, surf_tables()[0])
    trace, report = read_trace("surf", path)
    assert trace.is_event().all() and trace.is_start_known().all() and trace.usage is None
    trace, report = read_trace("surf", path, cut_tail_s=150)
    # The trace ends 150 s before 360: task 14 comes after, task 13 still runs.
    assert (trace.begin_s, trace.horizon_s) == (60, 210) and trace.is_event().tolist() == [True, True, False]
    assert dict(report.refused) == {"submitted in the tail that is cut": 1}
    with pytest.raises(ValueError, match=r"cut_tail_s must .*, got 300"):
        read_trace("surf", path, cut_tail_s=300)
    with pytest.raises(ValueError, match="cut_tail_s must be at least 0, got -1"):
        read_trace("surf", path, cut_tail_s=-1)


def test_usage_is_read_where_it_is_asked_for_or_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = surf_folder(tmp_path / "surf")
    assert read_trace("surf", folder, usage=False)[0].usage is None
    monkeypatch.setattr("sojourn.features.readers.surf.MAX_USAGE_ROWS", 7)
    assert read_trace("surf", folder)[0].usage is None
    assert read_trace("surf", folder, usage=True)[0].usage is not None
    (folder / "fragments.parquet").unlink()
    with pytest.raises(FileNotFoundError, match=r"fragments\.parquet must stand beside tasks\.parquet for usage"):
        read_trace("surf", folder, usage=True)


@pytest.mark.parametrize(("column", "value", "rule"), [
    ("id", 11, "duplicate id"),
    ("id", 1.5, "id not a whole number"),
    ("submission_time", -1, "time outside 0 .. 100 years"),
    ("submission_time", 4e15, "time outside 0 .. 100 years"),
    ("submission_time", None, "submission_time not a number"),
    ("duration", -5, "negative duration"),
    ("duration", np.inf, "duration not a number"),
    ("duration", 4e15, "time outside 0 .. 100 years"),
    ("cpu_count", -1, "negative size"),
    ("cpu_capacity", np.nan, "cpu_capacity not a number"),
    ("mem_capacity", 1e12, "size above 1e+09"),
])
def test_a_task_is_refused_by_its_rule(tmp_path: Path, column: str, value: float | None, rule: str) -> None:
    tasks = surf_tables()[0].astype({"id": "float64"})
    tasks[column] = tasks[column].astype("float64")
    tasks.loc[1, column] = value
    trace, report = read_trace("surf", only_tasks(tmp_path, tasks))
    assert dict(report.refused) == {rule: 1} and len(trace) == 3
    assert report.rejected["line"].tolist() == [2]


@pytest.mark.parametrize(("column", "value", "rules"), [
    ("id", 99, {"fragment of a task that is not kept": 1}),
    ("id", 12, {RUNS_ON: 1}),
    ("duration", 0, {"fragment's duration not above 0": 1}),
    ("duration", np.nan, {"duration not a number": 1}),
    ("cpu_usage", -1.0, {"usage outside 0 .. 10 of the capacity": 1}),
    ("cpu_usage", 1e9, {"usage outside 0 .. 10 of the capacity": 1}),
    ("cpu_usage", None, {"cpu_usage not a number": 1}),
])
def test_a_fragment_is_refused_by_its_rule(tmp_path: Path, column: str, value: float | None,
                                           rules: dict[str, int]) -> None:
    fragments = surf_tables()[1].astype("float64")
    fragments.loc[7, column] = value  # the last of task 11; a third fragment of task 12 runs past its end
    trace, report = read_trace("surf", surf_folder(tmp_path / "surf", fragments=fragments))
    assert dict(report.refused) == rules and len(trace) == 4
    assert trace.usage is not None and len(trace.usage) == 7
    assert report.rejected[["file", "line"]].values.tolist() == [["fragments.parquet", 8]]


def test_a_block_may_be_refused_whole(tmp_path: Path) -> None:
    fragments = surf_tables()[1].astype("float64").assign(cpu_usage=np.nan)
    trace, report = read_trace("surf", surf_folder(tmp_path / "surf", fragments=fragments))
    assert report.refused["cpu_usage not a number"] == len(fragments)
    assert len(trace) == 4 and (trace.usage is None or len(trace.usage) == 0)


def test_files_that_are_not_the_format_raise(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"must hold a \*tasks\.parquet"):
        read_trace("surf", tmp_path)
    folder = surf_folder(tmp_path / "surf")
    (folder / "old_tasks.parquet").write_bytes(b"")
    with pytest.raises(ValueError, match=r"got old_tasks\.parquet, tasks\.parquet"):
        read_trace("surf", folder)
    with pytest.raises(ValueError, match=r"old_tasks\.parquet must be a Parquet file with the columns id, "):
        read_trace("surf", folder / "old_tasks.parquet")
    tasks = surf_tables()[0]
    with pytest.raises(ValueError, match=r"must be a Parquet file with .*; got no duration"):
        read_trace("surf", only_tasks(tmp_path, tasks.drop(columns="duration")))
    with pytest.raises(ValueError, match="cpu_count must be a column of numbers, got"):
        read_trace("surf", only_tasks(tmp_path, tasks.assign(cpu_count="16")))
    with pytest.raises(ValueError, match="at least one task with a submission_time and a duration above 0, got none"):
        read_trace("surf", only_tasks(tmp_path, tasks.assign(duration=-1)))
    with pytest.raises(ValueError, match="at least one task, got none"):
        read_trace("surf", only_tasks(tmp_path, tasks.assign(cpu_count=-1)))


@pytest.mark.parametrize("name", ["tasks.parquet", "fragments.parquet"])
@settings(max_examples=25)
@given(edits=EDITS)
def test_mutated_files_are_read_or_refused_never_worse(tmp_path: Path, name: str, edits: Edits) -> None:
    folder = surf_folder(tmp_path / "surf")
    path = folder / name
    path.write_bytes(mutated(path.read_bytes(), edits))
    try:
        trace, report = read_trace("surf", folder)
    except ValueError as error:
        assert str(path) in str(error) or "tasks.parquet" in str(error)
    else:
        assert report.n_kept == len(trace) and report.n_read >= report.n_kept + report.n_refused


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason="the shared data is not beside the repository")
def test_real_counts() -> None:
    path = DATA / "surf_halfyear_tasks.parquet"
    trace, report = read_trace("surf", path)
    assert (report.n_read, report.n_kept, trace.span_s) == (194_917, 194_917, 10_702_638)
    assert int(trace.lifetime_s().max()) == 435_629
    # The longest duration cut off the end: 138 of the rest still run there.
    trace, report = read_trace("surf", path, cut_tail_s=435_629)
    assert (len(trace), int((~trace.is_event()).sum())) == (189_578, 138)
    trace, report = read_trace("surf", DATA / "surf_week_tasks.parquet")
    assert (report.n_kept, report.n_joined, report.n_refused) == (6_295, 2_323_475, 0)
    assert trace.span_s == 7 * 86_400
    assert (~trace.is_start_known()).sum() == 121 and (~trace.is_event()).sum() == 3
    assert trace.usage is not None and trace.usage["cpu_frac"].max() == 1.0
