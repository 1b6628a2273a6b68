"""Exports of Slurm's accounting: one recorded from a real Slurm (examples/slurm/slurm.sh), and each rule by hand."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings

from mutations import EDITS, Edits, mutated
from sojourn.features import Trace
from sojourn.features.read_report import ReadReport
from sojourn.features.readers import read_trace
from sojourn.features.readers.slurm import counts, requested_gib, tres

RECORDED = Path(__file__).parents[2] / "data" / "slurm"
FIELDS = ("JobID", "JobName", "User", "Account", "Submit", "Start", "End", "Elapsed", "Suspended", "State", "ExitCode",
          "Timelimit", "AllocCPUS", "ReqMem", "AllocTRES")
GOOD = {"JobID": "1", "JobName": "a", "User": "ann", "Account": "x", "Submit": "2026-01-05T03:00:00",
        "Start": "2026-01-05T03:00:00", "End": "2026-01-05T04:00:00", "Elapsed": "01:00:00", "Suspended": "00:00:00",
        "State": "COMPLETED", "ExitCode": "0:0", "Timelimit": "02:00:00", "AllocCPUS": "4", "ReqMem": "8G",
        "AllocTRES": "cpu=4,mem=8G,node=1"}
FOUR_S = 1_767_585_600
"""2026-01-05 04:00 UTC, the end of the good job."""
NEXT = {"JobID": "2", "Start": "2026-01-05T03:30:00", "Elapsed": "00:30:00"}


def read(folder: Path, *rows: dict[str, str], fields: tuple[str, ...] = FIELDS, **options: Any,
         ) -> tuple[Trace, ReadReport]:
    """The trace of a good job and of these, each given by how it differs from that."""
    path = folder / "sacct.txt"
    lines = ["|".join(fields), *("|".join({**GOOD, **row}[name] for name in fields) for row in ({}, *rows))]
    path.write_text("\n".join(lines) + "\n")
    return read_trace("slurm", path, **options)


def row_of(trace: Trace, name: str) -> dict[str, Any]:
    found = trace.requests[trace.requests["request_id"] == name]
    assert len(found) == 1
    return dict(found.iloc[0])


def moments(trace: Trace, column: str) -> list[str]:
    return [str(np.datetime64(int(each), "s")) for each in trace.requests[column].dropna()]


@pytest.fixture(scope="module")
def recorded() -> tuple[Trace, ReadReport]:
    return read_trace("slurm", RECORDED / "sacct_runs.txt", censor_cut=True)


@pytest.fixture(scope="module")
def by_name(recorded: tuple[Trace, ReadReport]) -> pd.DataFrame:
    """The recorded file as pandas reads it, without the job whose name has a bar."""
    lines = (RECORDED / "sacct_runs.txt").read_text().splitlines()
    table = pd.DataFrame([line.split("|") for line in lines[1:] if "| bar" not in line], columns=lines[0].split("|"))
    return table[table["AllocTRES"] != ""]


def test_every_recorded_run_has_its_times_cores_and_memory(recorded: tuple[Trace, ReadReport],
                                                            by_name: pd.DataFrame) -> None:
    trace, report = recorded
    assert len(trace) == len(by_name) + 1 and report.n_kept + report.n_refused == report.n_read
    assert sorted(moments(trace, "arrival_s")[:2]) == sorted(by_name["Start"])[:2]
    assert set(by_name["End"]) - {"Unknown"} <= set(moments(trace, "departure_s"))
    assert sum(trace.requests["cpu_cores"]) == by_name["AllocCPUS"].astype(float).sum() + 1
    assert sum(trace.requests["mem_gib"]) == by_name["ReqMem"].str.removesuffix("G").astype(float).sum() + 1
    assert trace.requests["gpu"].tolist().count(2.0) == 1
    assert trace.roles.owners == ("account", "user") and trace.roles.categories == ("partition",)
    assert trace.roles.numbers == ("requested_s", "requested_cores")
    assert trace.meta["known_at_end"] == ["state", "exit_code", "suspended_s"]
    assert (trace.meta["submit_column"], trace.meta["spans_hosts"]) == ("submit_s", True)


def test_recorded_jobs_that_never_ran_are_refused(recorded: tuple[Trace, ReadReport]) -> None:
    _, report = recorded  # `waits`, `full`, both parts of `het` and the preempted `below` wait; `never` was cancelled
    assert dict(report.refused) == {"never ran (pending)": 5, "never ran (cancelled before its start)": 1}
    raw = report.rejected.set_index("rule")["raw"]
    assert "|never|" in raw["never ran (cancelled before its start)"]


def test_each_run_of_a_recorded_requeued_job_is_a_request(recorded: tuple[Trace, ReadReport],
                                                          by_name: pd.DataFrame) -> None:
    trace, _ = recorded
    job = by_name[by_name["JobName"] == "again"]
    assert job["State"].tolist() == ["REQUEUED", "COMPLETED"]
    first, second = row_of(trace, job["JobID"].iloc[0]), row_of(trace, job["JobID"].iloc[0] + "/2")
    assert (first["state"], second["state"]) == ("REQUEUED", "COMPLETED")
    assert first["departure_s"] < second["submit_s"] + 2 <= second["arrival_s"]


def test_recorded_cut_runs_are_marked(recorded: tuple[Trace, ReadReport]) -> None:
    requests = recorded[0].requests
    assert set(requests["state"][requests["is_cut"]]) == {"CANCELLED", "TIMEOUT", "REQUEUED", "PREEMPTED"}
    assert set(requests["state"][~requests["is_cut"]]) == {"COMPLETED", "FAILED", "RUNNING"}
    assert requests["departure_s"][requests["is_cut"]].notna().all()


def test_the_recorded_export_ends_when_it_was_made(recorded: tuple[Trace, ReadReport], by_name: pd.DataFrame) -> None:
    trace, report = recorded
    running = by_name[by_name["State"] == "RUNNING"].iloc[0]
    made = np.datetime64(running["Start"]) + np.timedelta64(pd.Timedelta(running["Elapsed"]).value, "ns")
    assert np.datetime64(trace.horizon_s, "s") == made
    assert any("1 of " in line and "still run at the horizon" in line for line in report.notes)


def test_a_recorded_name_with_a_bar_and_a_suspended_job(recorded: tuple[Trace, ReadReport]) -> None:
    trace, report = recorded
    assert report.repaired == {"separator in JobName: cells joined": 1}
    paused = trace.requests[trace.requests["suspended_s"] > 0].iloc[0]
    assert paused["departure_s"] - paused["arrival_s"] >= 20 and paused["suspended_s"] == 6  # `sleep 20`, stopped for 6


def test_steps_are_left_out(recorded: tuple[Trace, ReadReport]) -> None:
    trace, report = read_trace("slurm", RECORDED / "sacct_steps.txt")
    n_lines = len((RECORDED / "sacct_steps.txt").read_text().splitlines()) - 1
    assert report.n_joined > 10 and report.n_read == n_lines
    assert set(trace.requests["request_id"]) <= set(recorded[0].requests["request_id"])


def test_fields_in_any_order_and_files_put_together_give_the_same_trace(tmp_path: Path) -> None:
    straight, _ = read(tmp_path, NEXT)
    turned, _ = read(tmp_path, NEXT, fields=tuple(reversed(FIELDS)))
    pd.testing.assert_frame_equal(turned.requests, straight.requests)
    path = tmp_path / "sacct.txt"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + path.read_bytes() * 2))
    twice, report = read_trace("slurm", path)
    pd.testing.assert_frame_equal(twice.requests, straight.requests)
    assert dict(report.refused) == {"run twice": 2}


def test_of_a_run_in_two_exports_the_one_that_saw_its_end_counts(tmp_path: Path) -> None:
    ended = {**NEXT, "End": "2026-01-05T09:00:00", "Elapsed": "05:30:00"}
    running = {**NEXT, "End": "Unknown", "State": "RUNNING"}
    for rows in ((running, ended), (ended, running)):
        trace, report = read(tmp_path, *rows)
        assert row_of(trace, "2")["state"] == "COMPLETED" and dict(report.refused) == {"run twice": 1}


@pytest.mark.parametrize(("row", "rule"), [
    ({"State": "PENDING", "Start": "Unknown", "End": "Unknown"}, "never ran (pending)"),
    ({"State": "PENDING", "Start": "2026-01-06T00:00:00", "End": "Unknown"}, "never ran (pending)"),
    ({"State": "CANCELLED by 1000", "Start": "None", "AllocTRES": ""}, "never ran (cancelled before its start)"),
    ({"State": "CANCELLED by 7", "End": GOOD["Start"], "Elapsed": "00:00:00", "AllocTRES": ""},
     "never ran (cancelled before its start)"),
    ({"State": "FAILED", "Start": "Unknown"}, "never ran (Start missing)"),
    ({"State": ""}, "State missing"),
    ({"JobID": "job"}, "JobID must be a job's"),
    ({"Start": "05.01.2026"}, "Start must be a time"),
    ({"End": "later"}, "End must be a time"),
    ({"Submit": "2026-13-01T00:00:00"}, "Submit must be a time"),
    ({"End": "2026-01-05T01:00:00"}, "End before Start"),
    ({"Submit": "2026-01-05T04:00:01"}, "Start before Submit"),
    ({"Elapsed": "1:99:00"}, "Elapsed must be a time span of 0 or more, as 90 or 1-02:03:04"),
    ({"Timelimit": "long"}, "Timelimit must be a time span of 0 or more, as 90 or 1-02:03:04"),
    ({"AllocTRES": "cpu=-4"}, "AllocTRES must be cpu=N,mem=N,..."),
    ({"AllocTRES": "many"}, "AllocTRES must be cpu=N,mem=N,..."),
    ({"AllocTRES": "", "AllocCPUS": "0"}, "no cores"),
    ({"AllocCPUS": "four"}, "CPUs must be a number"),
    ({"ReqMem": "much"}, "ReqMem must be a size of memory"),
    ({"AllocTRES": "cpu=9999999999"}, "size above 1e9"),
])
def test_a_row_is_refused_by_its_rule(tmp_path: Path, row: dict[str, str], rule: str) -> None:
    trace, report = read(tmp_path, {"JobID": "2", **row}, NEXT | {"JobID": "3"})
    assert dict(report.refused) == {rule: 1}
    assert report.rejected["line"].tolist() == [3] and sorted(trace.requests["request_id"]) == ["1", "3"]


def test_a_cancelled_run_of_no_length_that_had_a_place_ran(tmp_path: Path) -> None:
    at_once = {"JobID": "2", "State": "CANCELLED by 7", "End": GOOD["Start"], "Elapsed": "00:00:00"}
    assert "2" in set(read(tmp_path, at_once, NEXT | {"JobID": "3"})[0].requests["request_id"])
    fields = tuple(name for name in FIELDS if name != "AllocTRES")
    _, report = read(tmp_path, at_once, NEXT | {"JobID": "3"}, fields=fields)  # nothing says that it had one
    assert dict(report.refused) == {"never ran (cancelled before its start)": 1}


@pytest.mark.parametrize(("limit", "seconds"), [
    ("2-03:04:05", 183_845.0), ("30:00", 1_800.0), ("90", 5_400.0), ("1-06", 108_000.0), ("UNLIMITED", np.nan),
    ("Partition_Limit", np.nan), ("", np.nan),
])
def test_time_limits_are_seconds(tmp_path: Path, limit: str, seconds: float) -> None:
    trace, _ = read(tmp_path, NEXT | {"Timelimit": limit})
    np.testing.assert_equal(row_of(trace, "2")["requested_s"], seconds)


def test_sizes_come_from_what_was_given_else_from_what_was_asked(tmp_path: Path) -> None:
    trace, report = read(tmp_path, NEXT | {"AllocTRES": "", "ReqMem": "4Gc", "AllocCPUS": "3"},
                         NEXT | {"JobID": "3_4", "AllocTRES": "cpu=1K,gres/gpu:a100=2,gres/gpu:v100=1"},
                         NEXT | {"JobID": "4+1", "AllocTRES": "cpu=2,node=3,gres/gpu=1,gres/gpu:a=1", "ReqMem": "16Gn"},
                         NEXT | {"JobID": "5", "AllocTRES": "cpu=2", "ReqMem": "0n"})
    sizes = {name: [row_of(trace, name)[size] for size in ("cpu_cores", "mem_gib", "gpu")]
             for name in ("2", "3_4", "4+1", "5")}
    assert sizes == {"2": [3.0, 12.0, 0.0], "3_4": [1024.0, 8.0, 3.0], "4+1": [2.0, 48.0, 1.0], "5": [2.0, 0.0, 0.0]}
    assert dict(report.repaired) == {"memory missing: 0 taken": 1}


def test_lists_of_resources_and_requests_of_memory_that_are_none() -> None:
    assert tres(["cpu=two", "cpu=1,mem=x", "=", "cpu=1,gres/gpu:a=-1"]).is_bad.tolist() == [True] * 4
    assert counts(["1.5K", "1T", "nan"]).tolist()[:1] == [1536.0] and np.isnan(counts(["1T", "nan"])).all()
    _, is_bad = requested_gib(["4Gx", "c", "-1G"], np.ones(3), np.ones(3))
    assert is_bad.tolist() == [True, False, True]


def test_the_number_of_nodes_is_kept_without_a_role(tmp_path: Path) -> None:
    fields = (*FIELDS, "NNodes", "ReqTRES")
    blank = GOOD | {"NNodes": "", "ReqTRES": ""}
    rows = [blank, NEXT | {"AllocTRES": "cpu=8,node=2", "NNodes": "3"}, NEXT | {"AllocTRES": "cpu=8", "NNodes": "4"},
            NEXT | {"AllocTRES": "", "ReqTRES": "cpu=8,node=5"}, NEXT | {"AllocTRES": "cpu=2", "NNodes": "3"},
            NEXT | {"AllocTRES": "cpu=8", "NNodes": "0"}]
    path = tmp_path / "sacct.txt"
    rows = [{**blank, **row, "JobID": str(idx)} for idx, row in enumerate(rows, 1)]
    path.write_text("\n".join(["|".join(fields), *("|".join(row[name] for name in fields) for row in rows)]) + "\n")
    trace, _ = read_trace("slurm", path)
    found = trace.requests.set_index("request_id")["n_nodes"].sort_index().tolist()
    np.testing.assert_equal(found, [1.0, 2.0, 4.0, 5.0, np.nan, np.nan])  # 3 nodes cannot share 2 cores
    assert "n_nodes" not in trace.roles.columns() and trace.meta["hosts_column"] == "n_nodes"
    without, _ = read(tmp_path, NEXT, fields=tuple(name for name in FIELDS if name != "AllocTRES"))
    assert "n_nodes" not in without.requests and "hosts_column" not in without.meta


def test_without_an_end_a_run_is_censored_and_an_end_of_a_running_one_is_no_end(tmp_path: Path) -> None:
    cut = {"JobID": "3", "State": "RUNNING", "Start": "2026-01-05T04:00:00", "End": "2026-01-05T05:00:00"}  # sacct -T
    trace, report = read(tmp_path, NEXT | {"State": "RUNNING", "End": "Unknown", "Elapsed": "01:00:00"}, cut)
    assert trace.requests.set_index("request_id")["departure_s"].isna().to_dict() == {"1": False, "2": True, "3": True}
    assert trace.span_s == 3_600 and trace.begin_s == FOUR_S
    assert dict(report.repaired) == {"still running, with an end (sacct -T): censored": 1}


def test_second_0_is_the_first_end_and_what_began_before_it_ran_already(tmp_path: Path) -> None:
    trace, _ = read(tmp_path, NEXT | {"End": "2026-01-05T05:00:00", "Elapsed": "01:30:00"})
    assert trace.begin_s == trace.meta["start_unix_s"] == FOUR_S
    assert trace.requests[["arrival_s", "departure_s"]].to_numpy().tolist() == [
        [FOUR_S - 3_600, FOUR_S], [FOUR_S - 1_800, FOUR_S + 3_600]]


def test_times_are_of_the_clusters_zone(tmp_path: Path) -> None:
    later = NEXT | {"End": "2026-01-05T05:00:00", "Elapsed": "01:30:00"}
    utc, report = read(tmp_path, later)
    there, told = read(tmp_path, later, timezone="Europe/Berlin")
    assert utc.meta["start_unix_s"] - there.meta["start_unix_s"] == 3_600
    assert there.meta["time_zone"] == "Europe/Berlin" and utc.meta["time_zone"] == "UTC"
    for name in ("submit_s", "arrival_s", "departure_s"):
        assert (utc.requests[name] - there.requests[name]).eq(3_600).all()
    pd.testing.assert_frame_equal(there.since_begin().requests, utc.since_begin().requests)
    assert any("taken as UTC (--timezone" in line for line in report.notes)
    assert not any("taken as UTC" in line for line in told.notes)
    with pytest.raises(ValueError, match="timezone must be an IANA name"):
        read(tmp_path, timezone="CEST")


@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_when_clocks_change_the_elapsed_time_counts(tmp_path: Path, zone: str | None) -> None:
    spring = NEXT | {"Submit": "2026-03-29T01:00:00", "Start": "2026-03-29T01:30:00", "End": "2026-03-29T03:30:00",
                     "Elapsed": "01:00:00"}
    autumn = NEXT | {"JobID": "3", "Submit": "2026-10-25T01:00:00", "Start": "2026-10-25T02:30:00",
                     "End": "2026-10-25T02:40:00", "Elapsed": "01:10:00"}  # from the first half past two
    trace, report = read(tmp_path, spring, autumn, timezone=zone)
    assert (trace.lifetime_s() == [3_600, 3_600, 4_200]).all()
    rule = "End an hour off Elapsed (clocks changed): start + elapsed taken"
    assert report.repaired.get(rule, 0) == (2 if zone is None else 0)  # with the zone, times are chosen to fit


OCTOBER = {"JobID": "2", "Submit": "2026-10-25T00:10:00", "Start": "2026-10-25T02:30:00"}


@pytest.mark.parametrize(("row", "start_utc", "lifetime_s", "told"), [
    # 02:30 to 03:10 is 1 h 40 min from the first half past two (CEST, 00:30 UTC), and 40 min from the second
    ({"End": "2026-10-25T03:10:00", "Elapsed": "01:40:00"}, "00:30", 6_000, "1 decided by Elapsed, 0 by Submit, 0 by"),
    ({"End": "2026-10-25T03:10:00", "Elapsed": "00:40:00"}, "01:30", 2_400, "1 decided by Elapsed, 0 by Submit, 0 by"),
    ({"End": "2026-10-25T03:15:00", "Elapsed": "00:40:00", "Suspended": "00:05:00"}, "01:30", 2_700, "1 decided by"),
    # both in the repeated hour: one pass apart the elapsed time decides, in one pass only a later Submit does
    ({"End": "2026-10-25T02:40:00", "Elapsed": "01:10:00"}, "00:30", 4_200, "1 decided by Elapsed, 0 by Submit, 0 by"),
    ({"End": "2026-10-25T02:40:00", "Elapsed": "00:10:00"}, "00:30", 600, "0 decided by Elapsed, 0 by Submit, 1 by"),
    ({"End": "2026-10-25T02:40:00", "Elapsed": "00:10:00", "Submit": "2026-10-25T02:50:00"}, "01:30", 600,
     "0 decided by Elapsed, 1 by Submit, 0 by"),
    ({"End": "Unknown", "Elapsed": "09:00:00", "State": "RUNNING"}, "00:30", None, "0 by Submit, 1 by neither"),
    ({"End": "Unknown", "Elapsed": "09:00:00", "State": "RUNNING", "Submit": "2026-10-25T02:31:00"}, "01:30", None,
     "1 by Submit, 0 by neither"),
    ({"Start": "2026-10-25T01:50:00", "End": "2026-10-25T02:20:00", "Elapsed": "01:30:00"}, "23:50", 5_400,
     "1 decided by Elapsed, 0 by Submit, 0 by"),
])
def test_of_a_repeated_hour_the_rest_of_the_row_says_which_it_was(tmp_path: Path, row: dict[str, str], start_utc: str,
                                                                  lifetime_s: int | None, told: str) -> None:
    trace, report = read(tmp_path, OCTOBER | row, timezone="Europe/Berlin")
    run = row_of(trace, "2")
    start = str(np.datetime64(int(run["arrival_s"]), "s"))
    assert start == f"2026-10-2{4 if start_utc == '23:50' else 5}T{start_utc}:00"
    assert run["departure_s"] is pd.NA if lifetime_s is None else run["departure_s"] - run["arrival_s"] == lifetime_s
    found = [line for line in report.notes if "a change of clocks repeats" in line]
    assert len(found) == 1 and told in found[0] and not report.repaired
    assert found[0].startswith("check: ") == (" 0 by neither" not in found[0])


def test_times_with_an_offset_and_times_of_one_pass_leave_no_choice(tmp_path: Path) -> None:
    stamped = {"Submit": "2026-10-25T00:10:00+02:00", "Start": "2026-10-25T02:30:00+02:00",
               "End": "2026-10-25T02:40:00+02:00", "Elapsed": "00:10:00"}
    trace, report = read(tmp_path, OCTOBER | stamped, timezone="Europe/Berlin")
    assert row_of(trace, "2")["departure_s"] - row_of(trace, "2")["arrival_s"] == 600
    assert not any("clocks" in line for line in report.notes)
    assert not any("a change of clocks" in line for line in read(tmp_path, NEXT, timezone="Europe/Berlin")[1].notes)


def test_a_suspended_hour_is_no_change_of_clocks(tmp_path: Path) -> None:
    trace, report = read(tmp_path, NEXT | {"End": "2026-01-05T05:00:00", "Suspended": "01:00:00"})
    assert row_of(trace, "2")["departure_s"] == FOUR_S + 3_600 and not report.repaired
    fields = tuple(name for name in FIELDS if name != "Suspended")
    trace, report = read(tmp_path, NEXT | {"End": "2026-01-05T05:00:00"}, fields=fields)
    assert row_of(trace, "2")["departure_s"] == FOUR_S + 3_600 and not report.repaired


def test_names_that_do_not_recur_are_no_owner(tmp_path: Path) -> None:
    rows = [NEXT | {"JobID": str(idx), "JobName": f"run-{idx}", "Account": "xy"[idx % 2]} for idx in range(2, 9)]
    trace, _ = read(tmp_path, *rows)
    assert trace.roles.owners == ("account",) and "job_name" not in trace.requests and "user" not in trace.requests
    trace, _ = read(tmp_path, *(row | {"JobName": "ab"[idx % 2]} for idx, row in enumerate(rows)))
    assert trace.roles.owners == ("account", "job_name")


def test_what_is_known_at_the_end_has_no_role(tmp_path: Path) -> None:
    rows = [NEXT | {"JobID": str(idx), "State": ("FAILED", "COMPLETED")[idx % 2], "ExitCode": f"{idx % 2}:0",
                    "Suspended": f"00:00:0{idx % 2}"} for idx in range(2, 9)]
    trace, _ = read(tmp_path, *rows, censor_cut=True)
    assert not {"state", "exit_code", "suspended_s", "is_cut", "elapsed"} & set(trace.roles.columns())
    assert {"state", "exit_code", "suspended_s"} == set(trace.meta["known_at_end"]) <= set(trace.requests)


def test_an_unknown_state_is_kept_and_said(tmp_path: Path) -> None:
    _, report = read(tmp_path, NEXT | {"State": "EXPEDITED"})
    assert any(line.startswith("check: states that are not known, taken as ended: EXPEDITED") for line in report.notes)


def test_unix_seconds_are_read(tmp_path: Path) -> None:
    unix = {name: str(int(np.datetime64(GOOD[name]).astype(np.int64))) for name in ("Submit", "Start", "End")}
    path = tmp_path / "unix.txt"
    rows = [{**GOOD, **unix}, {**GOOD, **unix, "JobID": "2", "End": str(int(unix["End"]) + 9)}]
    path.write_text("|".join(FIELDS) + "\n" + "".join("|".join(row[name] for name in FIELDS) + "\n" for row in rows))
    trace, _ = read_trace("slurm", path)
    assert trace.requests["departure_s"].tolist() == [FOUR_S, FOUR_S + 9]


@pytest.mark.parametrize(("text", "message"), [
    ("", r"line 1 must be a header of `sacct -P`, got an empty file; export it with: sacct -a -X -D -P -S"),
    ("JobID|State|Start\n1|COMPLETED|x\n", r"must have the fields End, AllocCPUS or NCPUS or AllocTRES or ReqCPUS or"),
    ("       JobID    JobName      State\n------------ ---------- ----\n", r"must have .*separated by \|: with -P"),
    ("JobID|Start|End|State|NCPUS|State\n", "must have each field once, got 'state' twice"),
    ("JobID|Start|End|State|NCPUS\n", "must hold at least one job below its header, got none"),
    ("JobID|Start|End|State|NCPUS\n" + "1|2\n" * 30, r"line 2 must have 5 columns as the header, got '1\|2'"),
    ("JobID|Start|End|State|NCPUS\n1.batch|Unknown|Unknown|RUNNING|1\n", "must hold at least one job below"),
    ("JobID|Start|End|State|NCPUS\n1|Unknown|Unknown|PENDING|1\n", "at least one run of a job, got none; refused"),
    ("JobID|Start|End|State|NCPUS\n1|7|9|COMPLETED|1\n", r"Start must be dates \(2026-01-05T03:04:05\), got '7'"),
    ("JobID|Start|End|State|NCPUS\n1|2026-01-05T03:00:00|2026-01-05T03:00:00|FAILED|1\n",
     "the last time must lie after the first"),
])
def test_what_is_no_export_raises_with_the_file(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "sacct.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        read_trace("slurm", path)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("is_gzip", [False, True])
@settings(max_examples=25)
@given(edits=EDITS)
def test_mutated_exports_are_read_or_refused_never_worse(tmp_path: Path, is_gzip: bool, edits: Edits) -> None:
    sample = (RECORDED / "sacct_steps.txt").read_bytes()
    path = tmp_path / "file"
    path.write_bytes(mutated(gzip.compress(sample, mtime=0) if is_gzip else sample, edits))
    try:
        trace, report = read_trace("slurm", path)
    except ValueError as error:
        assert str(path) in str(error)
    else:
        assert report.n_read == report.n_kept + report.n_refused + report.n_joined and report.n_kept == len(trace)


def test_garbage_rows_cost_only_themselves(tmp_path: Path) -> None:
    good = [NEXT | {"JobID": str(idx)} for idx in range(2, 92)]
    path = tmp_path / "sacct.txt"
    read(tmp_path, *good)
    lines = path.read_text().splitlines()
    garbage = ["\x00\x01|", "|" * (len(FIELDS) - 1), "a|b|c", "9|" + "x|" * (len(FIELDS) - 2), '"' * 40] * 2
    path.write_text("\n".join([*lines[:40], *garbage, *lines[40:]]) + "\n")
    trace, report = read_trace("slurm", path)
    assert (len(trace), report.n_refused) == (91, 10)
