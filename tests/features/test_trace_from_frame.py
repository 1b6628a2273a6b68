"""A trace from a DataFrame: datetimes with and without zones, timedeltas, numbers; errors name column and value."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Roles, Trace

START: Any = ["2026-11-01 00:00", "2026-11-01 01:00", "2026-11-01 01:30"]
END: Any = ["2026-11-01 02:00", None, "2026-11-01 03:00"]


def frame(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame({"created": pd.to_datetime(START), "deleted": pd.to_datetime(END), "user": ["a", "b", "a"],
                         "cores": [1, 2, 4], **columns})


def times(trace: Trace) -> list[list[Any]]:
    return trace.requests[["arrival_s", "departure_s"]].astype(object).where(
        trace.requests[["arrival_s", "departure_s"]].notna(), None).to_numpy().tolist()


DAY_S = 1_793_491_200
"""2026-11-01 00:00 UTC."""
EXPECTED = [[DAY_S, DAY_S + 7_200], [DAY_S + 3_600, None], [DAY_S + 5_400, DAY_S + 10_800]]


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_datetimes_of_any_zone_and_unit(zone: str | None, unit: Any) -> None:
    stamps = {name: pd.Series(pd.to_datetime(given)).dt.tz_localize("UTC").dt.tz_convert(zone or "UTC").dt.as_unit(unit)
              for name, given in (("created", START), ("deleted", END))}
    if zone is None:
        stamps = {name: each.dt.tz_localize(None) for name, each in stamps.items()}
    trace = Trace.from_frame(frame(**stamps), arrival="created", departure="deleted", cpu_cores="cores",
                             owners=["user"])
    assert times(trace) == EXPECTED and trace.horizon_s == DAY_S + 10_800
    assert trace.roles == Roles(owners=("user",)) and trace.begin_s == trace.meta["start_unix_s"] == DAY_S
    assert trace.requests["cpu_cores"].tolist() == [1.0, 2.0, 4.0] and trace.requests["mem_gib"].tolist() == [0.0] * 3


def test_objects_timedeltas_and_numbers() -> None:
    mixed = frame(created=pd.Series([datetime(2026, 11, 1, hour, tzinfo=UTC) for hour in (0, 1, 2)], dtype=object),
                  life=pd.to_timedelta([7_200, None, 60], unit="s"))
    assert times(Trace.from_frame(mixed, arrival="created", duration="life")) == [
        [DAY_S, DAY_S + 7_200], [DAY_S + 3_600, None], [DAY_S + 7_200, DAY_S + 7_260]]
    own = pd.DataFrame({"t": [5.9, -3, np.nan], "d": [10, None, 4.5]}, index=["x", "y", "z"])
    trace = Trace.from_frame(own, arrival="t", departure="d", horizon=20, mem_gib=4.0)
    assert trace.horizon_s == 20 and "start_unix_s" not in trace.meta
    assert trace.requests.set_index("request_id")["departure_s"].fillna(-1).to_dict() == {"x": 10, "y": -1, "z": 4}
    assert trace.is_start_known().tolist() == [False, True, True]


@pytest.mark.parametrize("horizon", ["2026-11-02", datetime(2026, 11, 2), pd.Timestamp("2026-11-02T01:00+01:00"),
                                     np.datetime64("2026-11-02")])
def test_a_horizon_of_datetimes(horizon: Any) -> None:
    trace = Trace.from_frame(frame(), arrival="created", departure="deleted", horizon=horizon)
    assert trace.horizon_s == DAY_S + 86_400


@pytest.mark.parametrize(("columns", "options", "words"), [
    ({}, {"arrival": "begin"}, "arrival must be a column of the frame, one of created, deleted, .*; got 'begin'"),
    ({}, {"arrival": "user"}, r"user must hold datetimes or seconds, got 'a' \(texts: use pandas.to_datetime\)"),
    ({}, {"departure": "cores"}, r"cores must be on the same clock as created: datetimes .*, got int64"),
    ({"deleted": pd.to_datetime([END[0], "2026-10-31 00:00", None])}, {},
     "deleted must be at or after created, got 2026-10-31 00:00:00 in row 1"),
    ({"life": [1, -2, 3]}, {"departure": None, "duration": "life"}, "life must be at least 0, got -2 in row 1"),
    ({}, {"duration": "cores"}, "departure and duration must not both be given, got 'deleted' and 'cores'"),
    ({"cores": [1, -2, 4]}, {"cpu_cores": "cores"}, "cores must be finite and at least 0, got -2 in row 1"),
    ({}, {"cpu_cores": "user"}, "user must hold numbers of cpu_cores, got 'a'"),
    ({}, {"request_id": "user"}, "user must be present and unique in each row, got 'a'"),
    ({}, {"owners": ["who"]}, "a role must be a column of the frame, one of .*; got 'who'"),
    ({}, {"horizon": "2026-11-01 02:30"}, "horizon must be the end of observation, at or after every created and "
                                          "deleted, got '2026-11-01 02:30'; deleted is 2026-11-01 03:00:00 in row 2"),
    ({}, {"horizon": 5}, "horizon must be a datetime or a Unix stamp, as the arrivals are, got 5"),
    ({}, {"horizon": "soon"}, "horizon must be a datetime, got 'soon'"),
    ({"created": [1, 2, 3], "deleted": [4, 5, 6]}, {"horizon": "2026-11-02"}, "horizon must be a number of seconds"),
    ({"created": pd.NaT}, {"departure": None}, "created must hold a time in one row at least, got none"),
    ({"created": pd.to_datetime("2026-11-01")}, {"departure": None}, "horizon must lie after the first created, got"),
])  # fmt: skip
def test_errors_name_column_rule_and_value(columns: dict[str, Any], options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Trace.from_frame(frame(**columns), **{"arrival": "created", "departure": "deleted", **options})


@pytest.mark.parametrize("per_s", [1, 10**3, 10**6, 10**9])
def test_numbers_of_the_size_of_unix_stamps_are_stamps(per_s: int) -> None:
    stamps = pd.DataFrame({"t": [1_767_225_600 * per_s, 1_767_229_200 * per_s], "d": [1_767_232_800 * per_s, None]})
    for horizon in (None, 1_767_232_800 * per_s, "2026-01-01 02:00"):
        trace = Trace.from_frame(stamps, arrival="t", departure="d", horizon=horizon)
        assert times(trace) == [[1_767_225_600, 1_767_232_800], [1_767_229_200, None]]
        assert trace.horizon_s == 1_767_232_800 and trace.begin_s == 1_767_225_600


@pytest.mark.parametrize(("columns", "words"), [
    ({"created": [1_767_225_600, 1_767_225_600_000], "deleted": None}, "created must hold Unix stamps in one unit"),
    ({"created": [20_000_000_000, 20_000_000_060], "deleted": None}, "created must hold Unix stamps in one unit"),
    ({"created": [1_767_225_600, 0], "deleted": None}, "in one unit .* got 0 to 1767225600"),
    ({"created": [1_767_225_600, 1_767_225_600], "deleted": [60, 60]}, "deleted must be on the same clock as created"),
    ({"created": pd.to_datetime(["2026-01-01T00:00Z", "2026-01-02T00:00Z"]),
      "deleted": pd.to_datetime(["2026-01-02"] * 2)},
     "deleted must have time zones where created has them, and none where it has none"),
    ({"created": pd.Series([datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 1)], dtype=object), "deleted": None},
     "created must hold datetimes with a time zone or without one, got both"),
])  # fmt: skip
def test_times_that_may_mean_two_things_are_refused(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Trace.from_frame(pd.DataFrame(columns), arrival="created", departure="deleted")


def test_a_duration_above_100_years_is_refused() -> None:
    with pytest.raises(ValueError, match=r"life must .*, got 72"):
        Trace.from_frame(frame(life=[7_200_000_000_000, 1, 1]), arrival="created", duration="life")


def test_an_empty_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="the frame must hold at least one row, got none"):
        Trace.from_frame(frame().iloc[:0], arrival="created")
    with pytest.raises(ValueError, match=r"arrival must .*, got 'created' twice"):
        Trace.from_frame(pd.concat([frame(), frame()], axis=1), arrival="created")


def test_what_is_known_at_the_end_has_no_role() -> None:
    trace = Trace.from_frame(frame(code=[0, 1, 0]), arrival="created", departure="deleted", known_at_end=["code"])
    assert trace.meta["known_at_end"] == ["code"] and trace.roles.columns() == () and "code" in trace.requests


@pytest.mark.parametrize("roles", [{"categories": ["deleted"]}, {"owners": ["deleted"]}, {"numbers": ["deleted"]}])
def test_the_end_itself_is_no_feature(roles: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be known when a request begins, got 'deleted', which says when it ends"):
        Trace.from_frame(frame(), arrival="created", departure="deleted", **roles)


def test_a_column_that_sounds_like_the_end_is_warned_of_unless_no_model_sees_it() -> None:
    frame = pd.DataFrame({"start": [0, 10], "end": [20, 30], "exit_code": ["0", "1"], "zone": ["a", "b"]})
    with pytest.warns(UserWarning, match=r"the column 'exit_code' sounds like .* name it in known_at_end"):
        Trace.from_frame(frame, arrival="start", departure="end", categories=["exit_code", "zone"])
    trace = Trace.from_frame(frame, arrival="start", departure="end", categories=["zone"], known_at_end=["exit_code"])
    assert trace.meta["known_at_end"] == ["exit_code"]


def test_a_column_with_two_meanings_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a column must .*, got 'zone' twice"):
        Trace.from_frame(frame(zone=["a", "b", "a"]), arrival="created", departure="deleted", categories=["zone"],
                         known_at_end=["zone"])
    with pytest.raises(ValueError, match="a column must have one role, got 'zone' twice"):
        Trace.from_frame(frame(zone=["a", "b", "a"]), arrival="created", departure="deleted", categories=["zone"],
                         owners=["zone"])


def test_numbers_as_a_database_gives_them_are_read_and_texts_are_not() -> None:
    several = pd.Series([Decimal(2), 4, 0.5], dtype=object)
    trace = Trace.from_frame(frame(cpus=several), arrival="created", departure="deleted", cpu_cores="cpus")
    assert trace.requests["cpu_cores"].tolist() == [2.0, 4.0, 0.5]
    with pytest.raises(ValueError, match=r"cpus must .*, got '4' of type str \(texts: use"):
        Trace.from_frame(frame(cpus=pd.Series([2, "4", 1], dtype=object)), arrival="created", departure="deleted",
                         cpu_cores="cpus")


def test_memory_in_another_unit_is_warned_of() -> None:
    with pytest.warns(UserWarning, match="the median of 'mem' is 16,384 GiB: is it in MiB"):
        Trace.from_frame(frame(mem=[16_384, 32_768, 512]), arrival="created", departure="deleted", mem_gib="mem")


def test_a_horizon_without_a_zone_beside_times_with_one_is_refused() -> None:
    with pytest.raises(ValueError, match=r"horizon must .*, got '2026-12-01'"):
        Trace.from_frame(frame(created=pd.to_datetime(START, utc=True), deleted=pd.to_datetime(END, utc=True)),
                         arrival="created", departure="deleted", horizon="2026-12-01")
