"""`sojourn model export-c`: one header and its name, and one clear line where it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from made_bundles import make
from sojourn.flows.cli import app
from sojourn.serving import load_bundle
from sojourn.serving.c import c_source


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("made")).folders["uptime"]


def _run(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["model", "export-c", *map(str, arguments)])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout, result.stderr


def test_the_header_is_written_and_named(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "new" / "deep"
    assert _run(bundle, "--output", folder, "--name", "vm") == (
        0, f"written  {folder / 'vm.h'}\n", "")
    expected = c_source(load_bundle(bundle), "vm")
    assert (folder / "vm.h").read_text() == expected.header
    monkeypatch.chdir(tmp_path)
    assert _run(bundle) == (0, "written  sojourn_lifetime.h\n", "")


def test_what_it_refuses_is_one_line(bundle: Path, tmp_path: Path) -> None:
    code, _, err = _run(bundle, "--output", tmp_path, "--name", "../vm")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: name must be letters, digits")
    code, _, err = _run(tmp_path / "none", "--output", tmp_path)
    assert code == 2
    assert "MANIFEST.json" in err
    (tmp_path / "vm.h").write_text("int mine;\n")
    code, _, err = _run(bundle, "--output", tmp_path, "--name", "vm")
    assert code == 2
    assert "vm.h must be a file of an earlier export" in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["vm.h"]
