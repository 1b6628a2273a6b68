"""Cells of text as quantities and moments: what each form means, what is refused, and that nothing is ever raised."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from datetime import timezone as fixed_zone
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sojourn.features.readers import checked_timezone
from sojourn.features.readers._cells import (
    CPU_UNITS,
    SIZE_UNITS,
    cpu_cores,
    durations_s,
    is_comma_decimal,
    is_missing,
    numbers,
    sizes_gib,
)
from sojourn.features.readers._stamps import LocalTimes, StampForm, local_times, stamp_form, stamps_s

NAN = float("nan")


@pytest.mark.parametrize(("cell", "value"), [
    ("0", 0.0), ("-3", -3.0), ("+2.5", 2.5), (".5", 0.5), ("5.", 5.0), ("1e3", 1000.0), (" 7 ", 7.0),
    ("1,234", 1234.0), ("1,234,567.5", 1234567.5), ("1'234", 1234.0), ("1 234 567", 1234567.0), ("1\u00a0234", 1234.0),
    ("1,23", NAN), ("1,2345", NAN), ("12,34,567", NAN), ("0x10", NAN), ("1e16", NAN), ("1e400", NAN), ("inf", NAN),
    ("True", NAN), ("1-2", NAN), ("--1", NAN), ("1.2.3", NAN), ("\u0665", NAN),
])  # fmt: skip
def test_numbers(cell: str, value: float) -> None:
    found = numbers([cell])
    np.testing.assert_equal(found.values, [value])
    assert found.is_bad.tolist() == [np.isnan(value)]


@pytest.mark.parametrize(("cell", "value"), [("1,5", 1.5), ("1.234,5", 1234.5), ("1.234", 1234.0), ("3", 3.0)])
def test_numbers_with_a_decimal_comma(cell: str, value: float) -> None:
    assert numbers([cell], is_comma=True).values.tolist() == [value]


@pytest.mark.parametrize(("cells", "is_comma"), [
    (["1,5"], True), (["0,125"], True), (["1,2345"], True), (["1,500"], False), (["1,5", "1.5"], False), ([], False),
])  # fmt: skip
def test_a_decimal_comma_is_told_by_the_whole_column(cells: list[str], is_comma: bool) -> None:
    assert is_comma_decimal(cells) is is_comma


def test_units_after_numbers_with_a_decimal_comma() -> None:
    assert sizes_gib(["1,5 GB", "1.024 MB", "1.048.576K"], is_comma=True).values.tolist() == [1.5, 1.0, 1.0]
    assert cpu_cores(["1,5 vCPU", "1.500m"], is_comma=True).values.tolist() == [1.5, 1.5]
    assert is_comma_decimal(["1,5 GB", "2 GB"]) and not is_comma_decimal(["1,5 GB", "1.5 GB"])


@pytest.mark.parametrize("cell", ["", " ", "NULL", "None", "Unknown", "-", "nan", "N/A", "\\N", "<none>", "NaT"])
def test_words_for_no_value(cell: str) -> None:
    for read in (numbers, durations_s, sizes_gib, cpu_cores):
        found = read([cell])
        assert found.is_missing.tolist() == [True] and not found.is_bad.any() and np.isnan(found.values).all()
    assert stamps_s([cell], StampForm("iso")).is_missing.tolist() == [True]


@pytest.mark.parametrize(("cell", "value"), [
    ("2-03:04:05", 183_845.0),  # 2 x 86,400 + 3 x 3,600 + 4 x 60 + 5
    ("2-03:04", 183_840.0), ("2 days 03:04:05", 183_845.0), ("2 days, 3:04:05.5", 183_845.5), ("03:04:05", 11_045.0),
    ("100:00:00", 360_000.0), ("0:00:07,25", 7.25), ("90", 90.0), ("1.5", 1.5), ("1h30m", 5_400.0),
    ("1h 30m 5s", 5_405.0), ("90 min", 5_400.0), ("1.5 hours", 5_400.0), ("2d3h", 183_600.0), ("1 week", 604_800.0),
    ("250ms", 0.25), ("1m30.5s", 90.5), ("7\u00b5s", 7e-6), ("PT1H", 3_600.0), ("P1DT2H3M4.5S", 93_784.5),
    ("p2w", 1_209_600.0), ("UNLIMITED", NAN),
    ("03:04", NAN), ("2-03", NAN), ("1:60:00", NAN), ("1:00:60", NAN), ("1-24:00:00", NAN), ("-1", NAN), ("P1M", NAN),
    ("P", NAN), ("PT", NAN), ("30m1h", NAN), ("1y", NAN), ("h", NAN), ("1:2:3", NAN),
])  # fmt: skip
def test_durations(cell: str, value: float) -> None:
    found = durations_s([cell])
    np.testing.assert_allclose(found.values, [value])
    assert found.is_bad.tolist() == [bool(np.isnan(value)) and cell != "UNLIMITED"]


def test_two_parts_of_a_duration_are_read_as_asked() -> None:
    assert durations_s(["03:04"], pair="hh:mm").values.tolist() == [11_040.0]
    assert durations_s(["03:04", "00:01.5", "1-12"], pair="mm:ss").values.tolist() == [184.0, 1.5, 129_600.0]
    assert durations_s(["1-24", "3:60"], pair="mm:ss").is_bad.all()


@pytest.mark.parametrize(("cell", "value"), [
    ("4Gi", 4.0), ("512Mi", 0.5), ("4G", 4.0), ("4g", 4.0), ("2048 MB", 2.0), ("2048MiB", 2.0), ("1T", 1024.0),
    ("1048576K", 1.0), ("1073741824b", 1.0), ("1073741824 bytes", 1.0), ("2", 2.0), ("1.5 GiB", 1.5), ("4i", NAN),
    ("-4Gi", NAN), ("4X", NAN), ("Gi", NAN), ("4 4Gi", NAN), ("1e3Gi", 1000.0),
])  # fmt: skip
def test_sizes(cell: str, value: float) -> None:
    np.testing.assert_allclose(sizes_gib([cell]).values, [value])


def test_quantities_of_kubernetes_are_powers_of_ten_without_an_i() -> None:
    found = sizes_gib(["1Gi", "1G", "1M", "1k", "1073741824", "1073741824000m", "1K", "1g"], unit="B", is_quantity=True)
    gib = 2**30
    np.testing.assert_allclose(found.values, [1, 1e9 / gib, 1e6 / gib, 1e3 / gib, 1, 1, 1e3 / gib, NAN])


@pytest.mark.parametrize("unit", SIZE_UNITS)
def test_units_of_plain_sizes(unit: str) -> None:
    power = "BkMGT".index(unit[0] if unit != "KiB" else "k")
    base = 1024 if "i" in unit or unit == "B" else 1000
    np.testing.assert_allclose(sizes_gib(["3", "1Gi"], unit=unit).values, [3 * base**power / 2**30, 1.0])


def test_cores() -> None:
    found = cpu_cores(["500m", "2", "0.25", "2 cores", "1 CPU", "4vcpus", "250000u", "-1", "two", "1g"])
    np.testing.assert_allclose(found.values, [0.5, 2, 0.25, 2, 1, 4, 0.25, NAN, NAN, NAN])
    assert {unit: cpu_cores(["250"], unit=unit).values.tolist() for unit in CPU_UNITS} == {
        "cores": [250.0], "millicores": [0.25], "percent": [2.5]}


@pytest.mark.parametrize(("cell", "moment"), [
    ("2026-01-31", "2026-01-31T00:00:00+00:00"), ("2026-01-31 9:05", "2026-01-31T09:05:00+00:00"),
    ("2026-01-31T09:05:07Z", "2026-01-31T09:05:07+00:00"), ("2026/01/31 09:05:07", "2026-01-31T09:05:07+00:00"),
    ("2026-01-31T09:05:07,25+02:00", "2026-01-31T07:05:07.250000+00:00"),
    ("2026-01-31 09:05:07 UTC", "2026-01-31T09:05:07+00:00"),
    ("2026-01-31 09:05:07 -0530", "2026-01-31T14:35:07+00:00"),
    ("2026-01-31 09:05:07.123456 +0000 UTC", "2026-01-31T09:05:07.123456+00:00"),
    ("20260131T090507Z", "2026-01-31T09:05:07+00:00"), ("2024-02-29", "2024-02-29T00:00:00+00:00"),
    ("2026-01-31T23:59:60Z", "2026-02-01T00:00:00+00:00"),
])  # fmt: skip
def test_moments(cell: str, moment: str) -> None:
    assert stamps_s([cell], StampForm("iso")).values[0] == pytest.approx(datetime.fromisoformat(moment).timestamp())


@pytest.mark.parametrize("cell", [
    "2026-02-30", "2026-13-01", "2025-02-29", "2026-01-31T25:00", "2026-01-31T09:60", "01/31/2026", "31.01.2026",
    "26-01-31",
    "2026-01-31 09:05 CEST", "2026-01-31T09:05+25:00", "2026-01-31T09:05+02:75", "yesterday", "1767225600", "2026-1-3"])
def test_what_is_no_moment(cell: str) -> None:
    assert stamps_s([cell], StampForm("iso")).is_bad.tolist() == [True]


@pytest.mark.parametrize("cell", ["0001-01-01T00:00:00Z", "1970-01-01 00:00:00", "1970-01-01 08:00", "1985-11-05 00:00",
                                  "2103-03-01", "9999-12-31 23:59:59", "2999-01-01",
                                  "0000-00-00 00:00:00", "never"])
def test_moments_by_which_databases_say_none(cell: str) -> None:
    assert stamps_s([cell], StampForm("iso")).is_missing.tolist() == [True]


@settings(max_examples=60, deadline=None)
@given(st.datetimes(datetime(1985, 11, 7), datetime(2103, 2, 1)), st.integers(-18 * 60, 18 * 60))
def test_every_moment_is_that_of_the_standard_library(moment: datetime, minutes: int) -> None:
    zoned = moment.replace(tzinfo=fixed_zone(timedelta(minutes=minutes)))
    found = stamps_s([zoned.isoformat(), moment.isoformat(" ")], StampForm("iso")).values
    expected = [zoned.timestamp(), moment.replace(tzinfo=UTC).timestamp()]
    np.testing.assert_allclose(found, expected, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(st.datetimes(datetime(1990, 1, 2), datetime(2037, 12, 30)).map(lambda moment: moment.replace(microsecond=0)))
def test_moments_without_a_zone_are_of_the_given_one(moment: datetime) -> None:
    zone = ZoneInfo("Europe/Berlin")
    if moment.replace(tzinfo=zone).astimezone(UTC).astimezone(zone).replace(tzinfo=None) != moment:
        return  # an hour that is left out
    found = stamps_s([f"{moment:%Y-%m-%d %H:%M:%S}", f"{moment:%Y-%m-%d %H:%M:%S}Z"], StampForm("iso"), "Europe/Berlin")
    assert found.values.tolist() == [moment.replace(tzinfo=zone).timestamp(), moment.replace(tzinfo=UTC).timestamp()]


def test_hours_of_a_change_of_clocks() -> None:
    found = stamps_s(["2026-10-25 02:30", "2026-03-29 02:30", "2026-03-29 03:00"], StampForm("iso"), "Europe/Berlin")
    assert [datetime.fromtimestamp(value, UTC).isoformat() for value in found.values] == [
        "2026-10-25T00:30:00+00:00", "2026-03-29T01:00:00+00:00", "2026-03-29T01:00:00+00:00"]


@pytest.mark.parametrize(("cells", "form"), [
    (["2026-01-31 12:00", "junk"], "iso"), (["1767225600"] * 9 + ["junk"], "s"), (["1767225600.25"], "s"),
    (["1767225600000"], "ms"), (["1767225600000000"], "us"), (["600", "0", "-30"], "clock"), (["0"], "clock"),
    (["1767225600"] * 9 + ["1767225600000"], "s"), (["0"] * 50 + ["1767225600"], "s"),
])  # fmt: skip
def test_the_form_of_a_column(cells: list[str], form: str) -> None:
    found = stamp_form("start", cells)
    assert found is not None and found.kind == form


def test_a_column_without_a_value_has_no_form() -> None:
    assert stamp_form("end", ["", "NULL", "-1"]) is None


def test_nanoseconds_are_told_by_their_size() -> None:
    # 1.7e18 is above the largest number that float64 keeps to a second; it is cut to one all the same
    cell = "1767225600123456789"
    form = stamp_form("start", [cell])
    assert form is not None and form.kind == "ns"
    assert np.floor(stamps_s([cell], form).values).tolist() == [1_767_225_600.0]


@pytest.mark.parametrize(("cells", "words"), [
    (["1767225600", "1767225600000"], "start must be times in one form, got Unix seconds .* and Unix milliseconds"),
    (["1767225600", "2026-01-31"], "start must be times in one form, got ISO 8601 .* and Unix seconds"),
    (["600", "700", "1767225600"], "start must be times in one form"),
    (["20000000000"], "start must be times .*, got '20000000000'"),
    (["01/31/2026", "02/01/2026"], "start must be times .* got '01/31/2026'"),
    (["20260131", "20260201"], "start must be times that mean one thing, got '20260131', which may be a date"),
    (["46053.5", "46054.25"], "start must be times that mean one thing, got '46053.5', which may be a spreadsheet"),
])  # fmt: skip
def test_columns_that_may_mean_two_things_are_refused(cells: list[str], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        stamp_form("start", cells)


def test_a_given_unit_decides_what_size_does_not() -> None:
    form = stamp_form("start", ["1000", "2600000000"], "ms")
    assert form is not None and (form.kind, form.unit_s) == ("clock", 1e-3)
    assert stamps_s(["1000", "2600000000", "-1"], form).values[:2].tolist() == [1.0, 2_600_000.0]
    assert str(form) == "numbers in ms on its own clock"
    hours = stamp_form("start", ["46053.5"], "h")
    assert hours is not None and stamps_s(["46053.5"], hours).values.tolist() == [165_792_600.0]


def test_cells_without_a_zone_are_counted() -> None:
    cells = ["2026-01-01", "2026-01-01T00:00+01", "2026-01-01T00:00 UTC", "", "x"]
    assert local_times(cells) == LocalTimes(3, 1)


def test_hours_of_a_change_of_clocks_are_counted() -> None:
    cells = ["2026-10-25 02:30", "2026-10-25 02:59:59.5", "2026-10-25 03:00", "2026-03-29 02:30", "2026-03-29 03:00",
             "2026-10-25T02:30Z", "9999-12-31"]
    assert local_times(cells, "Europe/Berlin") == LocalTimes(6, 5, 2, 1)
    assert local_times(cells) + local_times(cells, "UTC") == LocalTimes(12, 10)


@pytest.mark.parametrize("name", ["CEST", "", "../etc", "Mars/Olympus", "UTC+25", "Europe"])
def test_a_wrong_zone_is_named(name: str) -> None:
    with pytest.raises(ValueError, match="timezone must be an IANA name"):
        checked_timezone(name)
    assert checked_timezone("Europe/Berlin") == "Europe/Berlin"


@settings(max_examples=25)
@given(st.lists(st.text(max_size=30) | st.from_regex(r"[0-9:.,TZPDHMS+\- GiKmB]{1,24}", fullmatch=True), max_size=6))
def test_any_text_is_a_value_missing_or_bad(cells: list[str]) -> None:
    forms = [StampForm("iso"), StampForm("s"), StampForm("ns", 1e-9), StampForm("clock")]
    found = [numbers(cells), numbers(cells, is_comma=True), durations_s(cells), durations_s(cells, pair="mm:ss"),
             sizes_gib(cells), sizes_gib(cells, is_quantity=True), cpu_cores(cells),
             *(stamps_s(cells, form, zone) for form in forms for zone in (None, "America/New_York"))]
    for each in found:
        assert each.values.shape == each.is_missing.shape == each.is_bad.shape == (len(cells),)
        assert (np.isfinite(each.values) == ~(each.is_missing | each.is_bad)).all()
        assert not (each.is_missing & each.is_bad).any()
    assert is_missing(np.array(["x", *cells], object))[0].item() is False
