"""`sojourn lab admit`: what it prints and writes, and what it says of bad input."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from made_jobs import swf_log
from sojourn.flows.cli import app
from sojourn.flows.console import console


def _run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["lab", "admit", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.stdout.split()), result.stderr


@pytest.mark.slow
def test_it_prints_writes_and_logs(tmp_path: Path, new_store: Callable[[Path], Path],
                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "width", 160)  # room for all columns
    log, out, store = swf_log(tmp_path / "jobs.swf", 300), tmp_path / "out", new_store(tmp_path / "store")
    code, text, _ = _run(log, "--reader", "swf", "--allocation", "best-fit", "--allocation", "balanced", "--backfill",
                         "--slack", 0.2, "--slack", 0.8, "--n-draws", 3, "--cores", 6, "--out", out, "--store", store,
                         "--page", tmp_path / "page.html")
    assert code == 0
    page = (tmp_path / "page.html").read_text()
    assert "<h1>Admission on jobs.swf</h1>" in page and "greedy best-fit backfill" in page and "<script" not in page
    assert page.count("data:image/png;base64,iVBOR") == 1
    for words in ("greedy best-fit backfill", "baseline", "the 2 of 2 days", "6 cores", "lower = better", "written"):
        assert words in text
    assert sorted(path.name for path in out.iterdir()) == ["admission.csv", "ratios.png", "summary.csv"]
    runs, summary = pd.read_csv(out / "admission.csv"), pd.read_csv(out / "summary.csv")
    assert len(runs) == 2 * 2 * 3 * 4 and len(summary) == 2 * 4
    assert (runs["n_cores"] == 6).all() and (runs["ratio"] >= 1).all()
    again = _run(log, "--reader", "swf", "--allocation", "best-fit", "--allocation", "balanced", "--backfill",
                 "--slack", 0.2, "--slack", 0.8, "--n-draws", 3, "--cores", 6, "--out", out, "--store", store)
    assert again[0] == 0
    assert pd.read_csv(out / "admission.csv").drop(columns="took_s").equals(runs.drop(columns="took_s"))
    from sojourn.flows.settings.retrain import load_config
    from sojourn.flows.versions.promotion import read_store

    found = read_store(load_config(store=store)).comparisons()
    assert [(each["name"], each["trace"]) for each in found] == [("admit", "jobs.swf")]
    assert found[0]["sections"][0]["rows"][0][1] == "greedy best-fit"
    assert found[0]["about"] == "Jobs with deadlines that are accepted on a power budget. "


@pytest.mark.parametrize(("given", "words"), [
    (("--allocation", "worst"), "allocation must be one of balanced, best-fit, min-idle, got 'worst'"),
    (("--slack", "-0.5"), "slack must be in 0..1,000,000, got -0.5"),
    (("--slack", "nan"), "slack must be in 0..1,000,000, got nan"),
    (("--mean", "harmonic"), "mean must be one of geometric, arithmetic, got 'harmonic'"),
    (("--cores", "0"), "cores must be valid: Input should be greater than or equal to 1, got 0"),
    (("--idle-w", "200"), "idle_w must be at most busy_w, got 200.0 and 100.0"),
    (("--power", "POWER", "--cores", "3"), "cores must not be given with a power profile"),
    (("--power", "POWER"), "power.csv: rows must have equal distances, got 10800 after 3600"),
    (("--power", "MISSING"), "No such file"),
    (("--power", "WIDE"), "wide.csv: cores must be at most 1,000,000, got 2,000,000"),
    (("--power", "OWN"), "Is a directory"),
    (("--cores", "10000001"), "cores must be valid: Input should be less than or equal to 10000000, got 10000001"),
    (("--sigma", "inf"), "sigma must be valid: "), (("--busy-w", "inf"), "busy_w must be valid: "),
    (("--n-draws", "9" * 18), "n_draws must be valid: "), (("--slack", "1e300"), "slack must be in 0..1,000,000"),
    (("--core-limit", "1", "--out", "OWN"), "out must be new, empty or a folder with admission.csv"),
])
def test_bad_input_ends_with_code_2_and_one_line(tmp_path: Path, given: tuple[str, ...], words: str,
                                                 new_store: Callable[[Path], Path]) -> None:
    log = swf_log(tmp_path / "jobs.swf", 60)
    (tmp_path / "power.csv").write_text("time_s,cores\n0,4\n3600,2\n10800,3\n")
    (tmp_path / "wide.csv").write_text("time_s,cores\n0,2000000\n")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "letter.txt").write_text("mine")
    paths = {"POWER": tmp_path / "power.csv", "MISSING": tmp_path / "none.csv", "OWN": tmp_path / "own",
             "WIDE": tmp_path / "wide.csv"}
    code, _, error = _run(log, "--reader", "swf", "--store", new_store(tmp_path / "store"),
                          *(paths.get(each, each) for each in given))
    assert code == 2
    assert error.startswith("error: ") and error.count("\n") == 1 and words in error
    assert (tmp_path / "own" / "letter.txt").read_text() == "mine"


def test_a_file_of_the_users_among_the_written_ones_is_not_removed(tmp_path: Path) -> None:
    log, out = swf_log(tmp_path / "jobs.swf", 50), tmp_path / "out"
    out.mkdir()
    (out / "admission.csv").write_text("an older run")
    (out / "notes.txt").write_text("mine")
    code, _, message = _run(log, "--reader", "swf", "--out", out, "--store", tmp_path / "store")
    assert code == 2 and "out must hold nothing but files of this command" in message and "notes.txt" in message
    assert (out / "notes.txt").read_text() == "mine" and (out / "admission.csv").read_text() == "an older run"


def test_a_trace_without_jobs_that_count_is_refused(tmp_path: Path) -> None:
    log = swf_log(tmp_path / "jobs.swf", 60, widest=1)
    log.write_text(log.read_text().replace(" 1 -1 -1 1 ", " 8 -1 -1 8 "))
    code, _, error = _run(log, "--reader", "swf", "--core-limit", 4, "--store", tmp_path / "store")
    assert code == 2 and "must hold jobs of 60 s to a day on at most 4 cores" in error and "60 jobs" in error
    assert _run(tmp_path / "gone.swf", "--reader", "swf")[0] == 2


def test_power_of_a_day_is_repeated(tmp_path: Path, new_store: Callable[[Path], Path]) -> None:
    log = swf_log(tmp_path / "jobs.swf", 200)
    power = tmp_path / "solar.csv"
    power.write_text("time_s,watts\n" + "".join(f"{3600 * hour},{100 * (2 + 6 * (6 <= hour < 18))}\n"
                                                for hour in range(24)))
    loads, store = {}, new_store(tmp_path / "store")
    for name, options in (("once", ()), ("repeated", ("--repeat-power",))):
        code, text, _ = _run(log, "--reader", "swf", "--power", power, *options, "--n-draws", 2, "--out",
                             tmp_path / name, "--store", store)
        assert code == 0 and "cores by the power profile" in text
        loads[name] = float(pd.read_csv(tmp_path / name / "admission.csv")["accepted_load_pct"].mean())
    assert loads["once"] < loads["repeated"]
