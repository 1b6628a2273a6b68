"""The Trace contract: what it refuses, what it sorts, and that a folder gives back what was saved."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.features import Roles, Trace
from sojourn.features.trace import SEEN_FROM, SEEN_TO


def table(**columns: Any) -> pd.DataFrame:
    rows = {"request_id": [1, 2, 3], "arrival_s": [0, 10, 20], "departure_s": [5, None, 30],
            "cpu_cores": [1.0, 2.0, 4.0], "mem_gib": [4.0, 8.0, 16.0]}
    return pd.DataFrame({**rows, **columns})


def test_censored_and_left_truncated_rows() -> None:
    trace = Trace(table(arrival_s=[None, -7, 20]), horizon_s=100)
    # Unknown start counts from 0: 5 - 0; known start before 0: 100 + 7; 30 - 20.
    assert trace.lifetime_s().tolist() == [5, 107, 10]
    assert trace.is_event().tolist() == [True, False, True]
    assert trace.is_start_known().tolist() == [False, True, True]


def test_rows_are_sorted_by_arrival_with_unknown_starts_first() -> None:
    trace = Trace(table(arrival_s=[3, None, -20]), horizon_s=100)
    assert trace.requests["request_id"].tolist() == [2, 3, 1]


@pytest.mark.parametrize(("columns", "message"), [
    ({"cpu_cores": [1.0, -2.0, 4.0]}, r"cpu_cores must be finite and >= 0, got -2.0 \(request 2\)"),
    ({"mem_gib": [4.0, np.nan, 1.0]}, "mem_gib must be finite"),
    ({"gpu": [0.0, np.inf, 1.0]}, "gpu must be finite"),
    ({"request_id": [1, 1, 2]}, "request_id must be present and unique, got .*1"),
    ({"request_id": ["a", None, "b"]}, "request_id must be present and unique"),
    ({"departure_s": [5, 4, 30]}, "departure_s must be at or after arrival_s"),
    ({"departure_s": [5, 400, 30]}, "horizon_s must be the end of observation in seconds, at or after every "
                                      "departure_s, got 100; departure_s is 400"),
    ({"arrival_s": [-9, 10, 20], "departure_s": [-1, 20, 30]}, "departure_s must be at or after 0"),
])
def test_refusals_name_the_column_the_rule_and_the_value(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Trace(table(**columns), horizon_s=100)


BEGIN_S = 1_700_000_000


def test_every_time_of_a_dated_trace_is_a_unix_second() -> None:
    columns = {name: pd.array([each, None, 90], "Int64") for each, name in enumerate(
        ("submit_s", SEEN_FROM, SEEN_TO, "creation_s", "ended_after_s", "ended_by_s"), 1)}
    usage = pd.DataFrame({"request_id": [1], "time_s": [3], "cpu_frac": [0.5]})
    own = Trace(table(arrival_s=[None, -7, 20], asked=[1.0, 2.0, 3.0], **columns), 100, Roles(numbers=("asked",)),
                usage=usage, meta={"test_from_s": 40, "later_from_s": None, "seed": 4})
    dated = own.moved(BEGIN_S, BEGIN_S)
    assert (dated.is_dated, dated.begin_s, dated.horizon_s, dated.span_s) == (True, BEGIN_S, BEGIN_S + 100, 100)
    assert (own.is_dated, own.begin_s, own.horizon_s, own.span_s) == (False, 0, 100, 100)
    for name in ("arrival_s", "departure_s", *columns):
        moved = dated.requests[name] - own.requests[name]
        assert moved.isna().equals(own.requests[name].isna()) and moved.dropna().eq(BEGIN_S).all()
    assert dated.usage is not None and dated.usage["time_s"].tolist() == [BEGIN_S + 3]
    assert dated.meta == {"test_from_s": BEGIN_S + 40, "later_from_s": None, "seed": 4, "start_unix_s": BEGIN_S}
    assert dated.requests["asked"].tolist() == own.requests["asked"].tolist()
    for name in ("lifetime_s", "is_event", "is_start_known"):
        np.testing.assert_array_equal(getattr(dated, name)(), getattr(own, name)())
    assert dated.start_s().tolist() == [BEGIN_S, BEGIN_S - 7, BEGIN_S + 20]  # an unknown start counts as the begin


def test_since_the_begin_is_the_same_trace_without_dates() -> None:
    own = Trace(table(arrival_s=[None, -7, 20], creation_s=[1, 2, 3]), 100, Roles(numbers=("creation_s",)))
    dated = own.moved(BEGIN_S, BEGIN_S)
    assert dated.requests["creation_s"].tolist() == [1, 2, 3]  # a column with a role is what its user says
    back = dated.since_begin()
    pd.testing.assert_frame_equal(back.requests, own.requests)
    assert (back.horizon_s, back.meta, back.roles) == (100, own.meta, own.roles)
    assert own.since_begin() is own


@pytest.mark.parametrize(("columns", "horizon_s", "message"), [
    ({}, 100, rf"horizon_s, .*must be above {BEGIN_S}, the Unix second at which the trace begins, got 100"),
    ({}, BEGIN_S, rf"must be above {BEGIN_S}, .*got {BEGIN_S}"),
    ({}, BEGIN_S + 100, rf"departure_s must be at or after {BEGIN_S}, the Unix second .*, got 5 \(request 1\)"),
    ({"arrival_s": [None] * 3}, BEGIN_S + 100, "departure_s must be at or after arrival_s, got 5"),
])
def test_a_dated_trace_of_times_since_its_begin_is_refused(columns: dict[str, Any], horizon_s: int,
                                                           message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Trace(table(**columns), horizon_s, meta={"start_unix_s": BEGIN_S})


def test_a_declared_attribute_must_be_there() -> None:
    with pytest.raises(ValueError, match="requests must have the columns user"):
        Trace(table(), horizon_s=100, roles=Roles(owners=("user",)))


def test_hosts_are_checked() -> None:
    hosts = pd.DataFrame({"host_id": [1, 1], "cpu_cores": [8.0, 8.0], "mem_gib": [32.0, 32.0]})
    with pytest.raises(ValueError, match="host_id must be unique"):
        Trace(table(), 100, hosts=hosts)
    with pytest.raises(ValueError, match="host cpu_cores must be finite and >= 0"):
        Trace(table(), 100, hosts=hosts.assign(host_id=[1, 2], cpu_cores=[8.0, -1.0]))


def test_select_keeps_the_rest(tmp_path: Path) -> None:
    trace = Trace(table(user=["a", "b", "a"]), 100, Roles(("user",)), meta={"source": "by hand"})
    part = trace.select(trace.requests["user"].eq("a").to_numpy())
    assert part.requests["request_id"].tolist() == [1, 3]
    assert (part.roles, part.horizon_s, part.meta) == (trace.roles, 100, {"source": "by hand"})


@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.tuples(st.none() | st.integers(-50, 90), st.none() | st.integers(0, 10),
                               st.sampled_from(["a", "b", "ü,\n"])), min_size=1, max_size=8))
def test_a_folder_gives_back_what_was_saved(tmp_path_factory: pytest.TempPathFactory,
                                            rows: list[tuple[int | None, int | None, str]]) -> None:
    arrival = [start for start, _, _ in rows]
    departure = [None if length is None else max(0, (start or 0)) + length for start, length, _ in rows]
    frame = pd.DataFrame({
        "request_id": np.arange(len(rows)), "arrival_s": pd.Series(arrival, dtype="Int64"),
        "departure_s": pd.Series(departure, dtype="Int64"), "cpu_cores": 1.0, "mem_gib": 0.5,
        "user": pd.Categorical([user for _, _, user in rows])})
    trace = Trace(frame, 100, Roles(owners=("user",))).moved(5, 5)
    folder = trace.save(tmp_path_factory.mktemp("trace") / "t")
    loaded = Trace.load(folder)
    pd.testing.assert_frame_equal(loaded.requests, trace.requests)
    assert (loaded.horizon_s, loaded.roles, loaded.meta) == (105, trace.roles, {"start_unix_s": 5})


def test_saving_again_replaces_the_folder_whole(tmp_path: Path) -> None:
    hosts = pd.DataFrame({"host_id": [1], "cpu_cores": [8.0], "mem_gib": [32.0]})
    Trace(table(), 100, hosts=hosts).save(tmp_path / "t")
    Trace(table(), 200).save(tmp_path / "t")
    loaded = Trace.load(tmp_path / "t")
    assert loaded.hosts is None and loaded.horizon_s == 200
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


@pytest.mark.parametrize(("name", "content", "error", "message"), [
    ("trace.json", None, FileNotFoundError, "must hold trace.json"),
    ("trace.json", b"{", ValueError, "must be a trace header"),
    ("trace.json", b'{"format_version": 99}', ValueError, "format_version must be 2, got 99"),
    ("trace.json", b'{"format_version": 1, "horizon_s": 100}', ValueError, "format_version must be 2, got 1"),
    ("requests.parquet", None, FileNotFoundError, "must hold requests.parquet"),
    ("requests.parquet", b"PAR1 no", ValueError, "must be a Parquet file"),
])
def test_a_damaged_folder_is_named(tmp_path: Path, name: str, content: bytes | None, error: type[Exception],
                                   message: str) -> None:
    folder = Trace(table(), 100).save(tmp_path / "t")
    if content is None:
        (folder / name).unlink()
    else:
        (folder / name).write_bytes(content)
    with pytest.raises(error, match=message):
        Trace.load(folder)


def test_importing_features_loads_nothing_heavier_than_pandas() -> None:
    heavy = "{'lightgbm', 'mlflow', 'onnxruntime', 'matplotlib', 'prefect', 'sklearn', 'numba'}"
    code = f"import sys, sojourn.features, sojourn.features.readers, sojourn.features.synthetic\n" \
           f"print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_folder_or_file_that_is_no_trace_is_left_alone(tmp_path: Path) -> None:
    source = tmp_path / "jobs.swf"
    source.write_text("not ours")
    for target in (tmp_path, source):
        with pytest.raises(ValueError, match=r"must be new, empty or a folder with trace\.json"):
            Trace(table(), horizon_s=100).save(target)
    assert [path.name for path in tmp_path.iterdir()] == ["jobs.swf"]
    (tmp_path / "empty").mkdir()
    assert len(Trace.load(Trace(table(), horizon_s=100).save(tmp_path / "empty"))) == 3
