"""Streams to a store and back: rules, order, grids and profiles, whatever file a request lies in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from sojourn.features.read_report import ReadLedger
from sojourn.features.usage import UsageStore, UsageStream, profiles_of, store_usage
from sojourn.features.usage.usage_stream import RULES, RawSamples, RequestTable
from sojourn.serving.usage import DayClock

Row = tuple[int, float, float]


def made_stream(*blocks: list[Row], clock: DayClock | None = None, mem: list[float] | None = None) -> UsageStream:
    """Requests 7 (2 cores), 8 (4 cores) and 9 (1 core) and samples (request, time_s, cpu) in blocks."""
    table = RequestTable()
    table.add([7, 8, 9], [2.0, 4.0, 1.0], [8.0, 16.0, 4.0])

    def read(table: RequestTable, ledger: ReadLedger) -> Iterator[RawSamples]:
        first = 1
        for block in blocks:
            ids = np.array([row[0] for row in block])
            yield RawSamples("made.csv", first, ids, table.rows(ids.tolist()), np.array([row[1] for row in block]),
                             np.array([row[2] for row in block]), None if mem is None else np.array(mem))
            first += len(block)

    return UsageStream("made", clock or DayClock(), read, table, n_rows=sum(map(len, blocks)))


def test_each_refused_sample_counts_under_its_first_rule_and_names_are_kept(tmp_path: Path) -> None:
    stream = made_stream([(7, 0, 0.5), (6, 0, -1.0), (7, 0.5, 0.5), (7, np.nan, 0.5), (7, 300, np.nan), (8, 0, np.inf)],
                         [(7, 600, -0.01), (7, 900, 10.5), (7, 1200, 10.0), (7, 0, 0.75)])
    store = store_usage(stream, tmp_path / "usage")
    report = stream.report()
    assert [report.read.refused[rule] for rule in RULES] == [1, 2, 2, 1, 1, 1]
    assert (report.read.n_read, report.read.n_kept, report.n_series) == (10, 2, 1)
    assert report.without_series == (8, 9) and report.without_request == (6,)
    assert store.header["n_without_series"] == 2 and store.header["n_without_request"] == 1
    assert report.read.examples(RULES[0]) == ["made.csv line 2: 6,0,-1"]
    assert "requests without a series 2: 8, 9" in report.text()
    grid = store.grid()
    assert grid.request_ids.tolist() == [7] and grid.cpu_cores.tolist() == [2.0]
    # The first of two samples at 0 stays; the median interval is 1,200 s, so it holds for 4 steps.
    assert grid.cpu.tolist() == [[0.5, 0.5, 0.5, 0.5, 10.0]]


def test_unordered_samples_are_sorted_across_blocks_and_counted(tmp_path: Path) -> None:
    stream = made_stream([(7, 600, 0.3), (8, 0, 0.9), (7, 0, 0.1)], [(7, 300, 0.2), (8, 300, 0.8)])
    store = store_usage(stream, tmp_path / "usage", n_parts=1)
    assert store.grid([7]).cpu.round(1).tolist() == [[np.float32(x) for x in (0.1, 0.2, 0.3)]]
    assert dict(stream.report().read.repaired) == {"sample before the one of its request above: sorted": 1}


def test_memory_outside_its_bounds_is_missing_and_the_sample_stays(tmp_path: Path) -> None:
    stream = made_stream([(7, 0, 0.5), (7, 300, 0.5), (7, 600, 0.5)], mem=[0.25, -1.0, 11.0])
    grid = store_usage(stream, tmp_path / "usage").grid()
    assert grid.mem is not None and grid.mem[0, 0] == 0.25 and np.isnan(grid.mem[0, 1:]).all()
    assert grid.cpu.tolist() == [[0.5, 0.5, 0.5]]
    assert stream.report().read.repaired["mem not within 0 .. cap: taken as missing"] == 2


def test_grids_of_the_files_are_the_rows_of_the_one_grid(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows = [(name, 300.0 * k, float(rng.random())) for name in (7, 8, 9) for k in range(50)]
    store = store_usage(made_stream(rows), tmp_path / "usage", n_parts=3)
    whole = store.grid()
    assert whole.request_ids.tolist() == [7, 8, 9]
    of = dict(zip(whole.request_ids.tolist(), whole.cpu.tolist(), strict=True))
    seen = [(name, row) for grid in store.grids() for name, row in
            zip(grid.request_ids.tolist(), grid.cpu.tolist(), strict=True)]
    assert sorted(name for name, _ in seen) == [7, 8, 9] and all(of[name] == row for name, row in seen)
    assert store.grid([9, 7]).cpu.tolist() == [of[9], of[7]]
    again = UsageStore.open(tmp_path / "usage").profiles(n_slots=24)
    order = np.argsort(again.request_ids)
    expected = profiles_of(whole, n_slots=24)
    np.testing.assert_array_equal(again.maximum[order], expected.maximum)
    np.testing.assert_allclose(again.quantiles[order], expected.quantiles)


def test_a_request_without_a_series_has_a_row_of_nan_where_it_is_named(tmp_path: Path) -> None:
    store = store_usage(made_stream([(7, 0, 0.5)]), tmp_path / "usage")
    assert np.isnan(store.grid([8, 7]).cpu[0]).all()
    with pytest.raises(ValueError, match="request_ids must be in the trace, got 6"):
        store.grid([6])
    with pytest.raises(ValueError, match="request_ids must be unique"):
        store.grid([7, 7])


def test_a_window_cuts_steps_and_the_future_does_not_change_them(tmp_path: Path) -> None:
    past = [(7, 300.0 * k, 0.1 * k) for k in range(4)]
    one = store_usage(made_stream([*past, (7, 1200, 0.9)]), tmp_path / "one")
    other = store_usage(made_stream([*past, (7, 1200, 5.0), (7, 1201, 7.0)]), tmp_path / "other")
    for step_s in (300, 600):
        assert one.grid(step_s=step_s, end_s=1200).cpu.tolist() == other.grid(step_s=step_s, end_s=1200).cpu.tolist()
    a, b = (store.profiles(to_s=1200) for store in (one, other))
    np.testing.assert_array_equal(a.maximum, b.maximum)
    np.testing.assert_array_equal(a.quantiles, b.quantiles)
    with pytest.raises(ValueError, match="end_s must be after start_s 0, got 0"):
        one.grid(end_s=0)


def test_the_store_is_replaced_whole_and_nothing_else_is(tmp_path: Path) -> None:
    folder = tmp_path / "usage"
    store_usage(made_stream([(7, 0, 0.5)]), folder)
    assert store_usage(made_stream([(8, 0, 0.25)]), folder).grid().request_ids.tolist() == [8]
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "mine.txt").write_text("kept")
    with pytest.raises(ValueError, match=r"must be new, empty or a folder with usage\.json"):
        store_usage(made_stream([(7, 0, 0.5)]), tmp_path / "other")
    with pytest.raises(ValueError, match="must hold at least one sample that keeps the rules"):
        store_usage(made_stream([(7, 0, -1.0)]), folder)
    assert UsageStore.open(folder).grid().request_ids.tolist() == [8]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "usage"]


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"usage folder must hold usage\.json"):
        UsageStore.open(tmp_path)
    (tmp_path / "usage.json").write_text("[]")
    with pytest.raises(ValueError, match="must be a usage header"):
        UsageStore.open(tmp_path)
    (tmp_path / "usage.json").write_text('{"format_version": 9}')
    with pytest.raises(ValueError, match="format_version must be 2, got 9"):
        UsageStore.open(tmp_path)


def test_files_of_the_user_beside_a_store_are_refused_before_a_sample_is_read(tmp_path: Path) -> None:
    folder = tmp_path / "usage"
    store_usage(made_stream([(7, 0, 0.5)]), folder)
    (folder / "notes.txt").write_text("kept")
    unread = made_stream([(7, 0, 0.5)])
    with pytest.raises(ValueError, match=r"got something else there: 'notes\.txt'"):
        store_usage(unread, folder)
    assert (folder / "notes.txt").read_text() == "kept" and unread.report().read.n_read == 0
    (tmp_path / "file").write_text("kept")
    with pytest.raises(ValueError, match="must be a folder, got a file"):
        store_usage(unread, tmp_path / "file")


def _edit(**values: object) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        header = json.loads((folder / "usage.json").read_text())
        (folder / "usage.json").write_text(json.dumps({**header, **values}))

    return edit


def _swap(folder: Path) -> None:
    one, other = sorted(folder.glob("part-*"))[:2]
    one_bytes = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(one_bytes)


def _cut(name: str) -> Callable[[Path], None]:
    def cut(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:-5])

    return cut


@pytest.mark.parametrize(("damage", "words"), [
    (_edit(n_parts=1), "must be as it was written"), (_edit(start_s=600), "must be as it was written"),
    (_edit(end_s=10**9), "must be as it was written"), (_edit(has_mem=True), "must be as it was written"),
    (_edit(digest=None), "must be as it was written"), (_edit(timezone="../../zone"), "must be as it was written"),
    (_swap, "must be the file that was stored"), (_cut("requests.parquet"), "must be the file that was stored"),
    (_cut("part-0001.parquet"), "must be the file that was stored"),
    (lambda folder: (folder / "part-0001.parquet").unlink(), "usage folder must hold part-0001"),
    (lambda folder: (folder / "requests.parquet").unlink(), "usage folder must hold requests"),
])
def test_a_damaged_store_never_gives_numbers(tmp_path: Path, damage: Callable[[Path], None], words: str) -> None:
    rows = [(name, 300.0 * k, 0.5) for name in (7, 8, 9) for k in range(4)]
    store_usage(made_stream(rows), tmp_path / "usage", n_parts=2)
    damage(tmp_path / "usage")
    for read in (UsageStore.grid, UsageStore.profiles, lambda store: list(store.grids())):
        with pytest.raises((ValueError, FileNotFoundError), match=words):
            read(UsageStore.open(tmp_path / "usage"))


def test_a_store_that_is_replaced_while_it_is_open_is_not_mixed_with_the_new_one(tmp_path: Path) -> None:
    opened = store_usage(made_stream([(7, 0, 0.1), (8, 0, 0.2)]), tmp_path / "usage", n_parts=1)
    store_usage(made_stream([(8, 0, 0.8), (7, 0, 0.7)]), tmp_path / "usage", n_parts=1)
    with pytest.raises(ValueError, match="replaced after it was opened"):
        opened.grid()


def test_grids_have_no_more_cells_than_fit_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(name, 300.0 * k, 0.1 * k + name / 100) for name in (7, 8, 9) for k in range(10)]
    store = store_usage(made_stream(rows), tmp_path / "usage", n_parts=1)
    whole = next(store.grids()).cpu
    monkeypatch.setattr("sojourn.features.usage.usage_store.MAX_CELLS", 25)
    parts = [grid.cpu for grid in store.grids()]
    assert [part.shape for part in parts] == [(2, 10), (1, 10)]
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    monkeypatch.setattr("sojourn.features.usage.usage_store.MAX_CELLS", 9)
    with pytest.raises(ValueError, match="step_s must give at most 9 steps, got 10 of 300 s between 0 and 3000 s"):
        list(store.grids())
    monkeypatch.setattr("sojourn.features.usage.usage_store.MAX_CELLS_AT_ONCE", 29)
    with pytest.raises(ValueError, match="a grid must have at most 29 cells, got 3 requests x 10 steps"):
        store.grid()


@pytest.mark.parametrize("ids", [300, "7"])
def test_ids_that_are_no_list_are_refused(tmp_path: Path, ids: int | str) -> None:
    store = store_usage(made_stream([(7, 0, 0.5)]), tmp_path / "usage")
    with pytest.raises(ValueError, match=f"request_ids must be a list of ids, got {ids!r}"):
        store.grid(ids)  # type: ignore[arg-type]


def test_local_slots_follow_daylight_saving(tmp_path: Path) -> None:
    """31 March 2013 in Berlin has 23 hours and no sample between 2 and 3; 27 October has 25, twice as many then."""
    for start_unix_s, n_hours, slot_2 in ((1_364_684_400, 23, 0), (1_382_824_800, 25, 2)):
        rows = [(7, 3600.0 * k, 0.5) for k in range(n_hours)]
        stream = made_stream(rows, clock=DayClock(start_unix_s, "Europe/Berlin"))
        profiles = store_usage(stream, tmp_path / f"{n_hours}").profiles(n_slots=24)
        assert profiles.count[0].tolist() == [1, 1, slot_2, *[1] * 21]
        assert np.isnan(profiles.maximum[0, 2]) == (slot_2 == 0)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a disk that is always full is Linux's")
def test_a_full_disk_is_named_and_leaves_the_older_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_usage(made_stream([(7, 0, 0.5)]), tmp_path / "usage")
    monkeypatch.setattr("sojourn.features.usage.usage_store._spool", lambda fresh, part, tag: Path("/dev/full"))
    with pytest.raises(OSError, match="No space left on device"):
        store_usage(made_stream([(8, 0, 0.5)]), tmp_path / "usage")
    assert [path.name for path in tmp_path.iterdir()] == ["usage"]
    assert UsageStore.open(tmp_path / "usage").grid().request_ids.tolist() == [7]
