"""`sojourn trace synth`: what it writes, that it can be read again, and what it says of bad input."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from sojourn.features import Trace
from sojourn.features.synthetic import synthesize
from sojourn.features.synthetic_usage import with_usage
from sojourn.flows.cli import app


def _run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["trace", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_synth_writes_the_same_trace_as_the_function(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    code, out, _ = _run("synth", folder, "--n-requests", 1000, "--seed", 4, "--days", 7)
    assert code == 0
    assert out.splitlines()[-2:] == [f"written  {folder}", f"next     sojourn trace describe {folder}"]
    assert sorted(path.name for path in folder.iterdir()) == ["hosts.parquet", "requests.parquet", "trace.json"]
    expected, found = synthesize(1000, seed=4, days=7), Trace.load(folder)
    pd.testing.assert_frame_equal(found.requests, expected.requests)
    assert (found.span_s, found.roles) == (7 * 86_400, expected.roles)
    code, out, _ = _run("describe", folder)
    assert code == 0 and "1,000" in out


def test_usage_and_its_truth_stand_beside_the_requests(tmp_path: Path) -> None:
    folder = tmp_path / "made"
    assert _run("synth", folder, "--n-requests", 1000, "--usage", 5)[0] == 0
    expected, truth = with_usage(synthesize(1000), 5)
    found = Trace.load(folder)
    assert found.usage is not None and expected.usage is not None
    pd.testing.assert_frame_equal(found.usage, expected.usage)
    written = pd.read_parquet(folder / "usage_truth.parquet")
    assert written["usage_shape"].tolist() == truth["usage_shape"].tolist()
    assert _run("synth", folder, "--n-requests", 1000)[0] == 0  # replaces its like, truth and all
    assert sorted(path.name for path in folder.iterdir()) == ["hosts.parquet", "requests.parquet", "trace.json"]


@pytest.mark.parametrize(("arguments", "message"), [
    (("--n-requests", 999), "n_requests must be at least 1,000 (shares of fewer mean little), got 999"),
    (("--seed", -1), "seed must be at least 0, got -1"),
    (("--days", 0), "days must be between 1 and 3650, got 0.0"),
    (("--n-requests", 1000, "--usage", -1), "n_usage must be between 1 and the 1000 requests, got -1"),
    (("--n-requests", 1000, "--usage", 1001), "n_usage must be between 1 and the 1000 requests, got 1001"),
])
def test_bad_options_end_with_one_line(tmp_path: Path, arguments: tuple[object, ...], message: str) -> None:
    code, _, err = _run("synth", tmp_path / "made", *arguments)
    assert (code, err) == (2, f"error: {message}\n")
    assert not (tmp_path / "made").exists()


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    code, _, err = _run("synth", tmp_path, "--n-requests", 1000)
    assert code == 2
    assert err == f"error: {tmp_path} must be new, empty or a folder with trace.json, got something else there\n"
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_in_the_way_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for folder in (tmp_path / "file", tmp_path / "file" / "below"):
        code, _, err = _run("synth", folder, "--n-requests", 1000)
        assert code == 2 and err.startswith("error: ") and err.count("\n") == 1
    assert (tmp_path / "file").read_text() == "mine"
