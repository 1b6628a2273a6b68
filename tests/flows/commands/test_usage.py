"""`sojourn usage describe`: what it prints and writes, and what it says of bad input."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from made_files import bitbrains_folder
from sojourn.features.synthetic import synthesize
from sojourn.features.synthetic_usage import with_usage
from sojourn.features.usage import USAGE_READERS, UsageStore
from sojourn.flows.cli import app


def _run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["usage", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.slow
def test_describe_prints_tables_and_writes_pictures(tmp_path: Path) -> None:
    trace, _ = with_usage(synthesize(1000, seed=1, days=10), 6, seed=1)
    out = tmp_path / "out"
    code, text, _ = _run("describe", trace.save(tmp_path / "trace"), "--step-s", 900, "--n-classes", 2, "--out", out)
    assert code == 0
    for words in ("6; 994 requests without one", "Why a series is periodic or not", "Classes of series", "in-sample"):
        assert words in text
    assert sorted(path.name for path in out.iterdir()) == [
        "classes.png", "errors.png", "periods.png", "series.parquet", "series.png", "spectrum.png", "usage"]
    assert all(path.stat().st_size > 10_000 for path in out.glob("*.png"))
    assert len(pd.read_parquet(out / "series.parquet")) == 6
    assert UsageStore.open(out / "usage").header["n_series"] == 6


def test_options_of_a_reader_come_as_name_and_value(tmp_path: Path) -> None:
    code, text, _ = _run("describe", tmp_path, "--usage-reader", "synthetic", "--set", "n_requests=1000", "--set",
                         "n_usage=2", "--set", "days=3", "--step-s", 900, "--day-timezone", "Europe/Berlin")
    assert code == 0 and "Europe/Berlin" in text and "1,728 kept" in text


def test_help_names_the_readers() -> None:
    code, text, _ = _run("describe", "--help")
    assert code == 0 and all(name in " ".join(text.split()) for name in ("bitbrains", "azure-vm", "synthetic"))
    assert len(USAGE_READERS) > 10


@pytest.mark.parametrize(("arguments", "words"), [
    (("--usage-reader", "csv"), "reader must be one of alibaba-2018, "),
    (("--usage-reader", "bitbrains", "--set", "month"), "--set must be NAME=VALUE with a name of bitbrains "),
    (("--usage-reader", "bitbrains", "--set", "day=1"), "--set must be NAME=VALUE with a name of bitbrains "),
    (("--usage-reader", "bitbrains", "--set", "max_cpu=high"), "max_cpu must be a number, got 'high'"),
    (("--usage-reader", "azure-vm", "--set", "only_known=no"), "only_known must be true or false, got 'no'"),
    (("--usage-reader", "bitbrains", "--day-timezone", "Mars"), "timezone must be an IANA name such as UTC or "),
    (("--usage-reader", "bitbrains", "--step-s", "0"), "step_s must be at least 1 and below 1800, got 0"),
    (("--usage-reader", "bitbrains", "--step-s", "1800"), "step_s must be at least 1 and below 1800, got 1800"),
    (("--usage-reader", "bitbrains", "--n-classes", "0"), "n_classes must be at least 1, got 0"),
    (("--usage-reader", "bitbrains", "--set", "max_cpu=0"), "max_cpu must be above 0, got 0.0"),
    (("--usage-reader", "parquet"), "trace folder must hold usage.parquet"),
])
def test_bad_input_ends_with_one_line(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    folder = bitbrains_folder(tmp_path / "b")
    code, _, err = _run("describe", folder, *arguments)
    assert code == 2 and err.startswith(f"error: {words}") and err.count("\n") == 1


def test_a_file_in_the_place_of_the_folder_is_refused_before_work(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("mine")
    folder = bitbrains_folder(tmp_path / "b")
    code, _, err = _run("describe", folder, "--usage-reader", "bitbrains", "--out", tmp_path / "out")
    assert code == 2 and err.startswith("error: out must be a folder, got the file")
    assert (tmp_path / "out").read_text() == "mine"


def test_a_folder_of_the_user_is_refused_before_anything_is_read(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("kept")
    code, text, error = _run("describe", tmp_path, "--usage-reader", "synthetic", "--out", out)
    assert code == 2 and text == "" and "got something else in" in error and "'notes.txt'" in error
    assert [path.name for path in out.iterdir()] == ["notes.txt"]
    (out / "notes.txt").rename(out / "usage")
    code, _, error = _run("describe", tmp_path, "--usage-reader", "synthetic", "--set", "n_requests=1000", "--out", out)
    assert code == 2 and "usage must be a folder, got a file" in error and (out / "usage").read_text() == "kept"


@pytest.mark.slow
@pytest.mark.filterwarnings("error")
def test_a_second_run_into_the_folder_leaves_no_picture_of_the_first(tmp_path: Path) -> None:
    out, own = tmp_path / "out", tmp_path / "own.csv"
    out.mkdir()
    for name in ("errors.png", "spectrum.png", "classes.png", ".series.png.0a1b"):
        (out / name).write_bytes(b"of an earlier run")
    own.write_text("request_id,time_s,cpu_frac\na,0,0.5\nb,0,0.25\n")
    for _ in range(2):
        code, text, _ = _run("describe", own, "--usage-reader", "table", "--out", out)
        assert code == 0 and "0 series (0.0 %)" in text
        assert sorted(path.name for path in out.iterdir() if path.name[0] != ".") == [
            "periods.png", "series.parquet", "series.png", "usage"]


def test_a_stamp_far_from_the_others_does_not_fill_the_memory(tmp_path: Path) -> None:
    own = tmp_path / "own.csv"
    own.write_text("request_id,time_s,cpu_frac\n" + "".join(f"a,{300 * k},0.5\n" for k in range(9)) + "b,1e8,0.5\n")
    code, text, _ = _run("describe", own, "--usage-reader", "table")
    assert code == 0 and "1157.4 days" in text
    own.write_text("request_id,time_s,cpu_frac\na,0,0.5\nb,1700000000,0.5\n")
    code, _, error = _run("describe", own, "--usage-reader", "table", "--step-s", 1)
    assert code == 2 and "is a stamp far from the others?" in error
