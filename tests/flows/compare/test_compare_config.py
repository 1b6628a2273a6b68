"""Settings of a comparison: flags, files, presets, and what is refused before anything runs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sojourn.flows.cli import app
from sojourn.flows.compare.settings import PRESETS, QUEUE, CompareConfig
from sojourn.flows.settings.store import load_settings
from sojourn.simulator import POLICIES


def test_seeds_are_listed_or_counted() -> None:
    assert CompareConfig(n_seeds=3).seeds == (0, 1, 2)
    assert CompareConfig.model_validate({"n_seeds": "2"}).seeds == (0, 1)
    assert CompareConfig.model_validate({"preset": "lava-table", "n_seeds": 2}).seeds == (0, 1)
    assert CompareConfig.model_validate({"seeds": [9, 4]}).seeds == (9, 4)
    with pytest.raises(ValueError, match=r"n_seeds must .*, got 2 and \[9, 4\]"):
        CompareConfig.model_validate({"seeds": [9, 4], "n_seeds": 2})


@pytest.mark.parametrize("seeds", ["1.5", "3", "[]", "[1, 1]", "[-1]", "[[1]]"])
def test_seeds_of_a_file_that_are_none_are_refused(tmp_path: Path, seeds: str) -> None:
    file = tmp_path / "compare.toml"
    file.write_text(f"seeds = {seeds}\n")
    with pytest.raises(ValueError, match=r"seeds"):
        load_settings(CompareConfig, file)


def test_flags_win_over_the_file_and_both_over_the_preset(tmp_path: Path) -> None:
    file = tmp_path / "compare.toml"
    file.write_text('preset = "load-sweep"\nn_seeds = 3\npredictors = ["noise:2"]\nn_requests = 2000\n')
    config = load_settings(CompareConfig, file, predictors=["oracle"])
    assert config.loads == PRESETS["load-sweep"].loads
    assert (config.seeds, config.predictors, config.n_requests) == ((0, 1, 2), ("oracle",), 2_000)


@pytest.mark.parametrize("name", [name for name in PRESETS if name != QUEUE])
def test_every_preset_of_hosts_is_a_grid(name: str) -> None:
    config = CompareConfig(preset=name)
    assert config.policies and set(config.policies) <= set(POLICIES)
    assert len(config.cells()) > len(config.loads) * len(config.seeds)


def test_an_unknown_preset_is_refused_before_the_simulator_is_loaded() -> None:
    script = ("import sys; from typer.testing import CliRunner; from sojourn.flows.cli import app\n"
              "found = CliRunner().invoke(app, ['gain', '--preset', 'everything'])\n"
              "heavy = sorted({'numba', 'pandas'} & set(sys.modules))\n"
              "print(found.exit_code, found.stderr.split(',')[0], heavy)")
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "2 error: preset must be one of lava-table []\n"


def test_what_is_given_wins_over_a_preset(tmp_path: Path) -> None:
    config = CompareConfig.model_validate({
        "preset": "lava-table", "store": tmp_path, "policies": ["nilas-expected"], "loads": [0.7], "n_seeds": 2})
    assert (config.policies, config.loads, config.seeds) == (("nilas-expected",), (0.7,), (0, 1))


@pytest.mark.parametrize(("arguments", "words"), [
    (("--policy", "best"), "policy must be one of aligned-fit, best-fit,"),
    (("--predictor", "wizard"), "predictor must be one of oracle, noise:NUMBER,"),
    (("--preset", "everything"), f"preset must be one of {', '.join(PRESETS)}, got 'everything'"),
    (("--recipe", "borg"), "recipe must be one of azure-flavors, dlrm, openb, openb-gpu, synthetic, trace, got 'borg'"),
    (("--reader", "borg"), "reader must be one of synthetic,"),
    (("--start", "tepid"), "starts.0 must be valid: Input should be 'cold' or 'warm', got 'tepid'"),
    (("--predictor", "km", "--start", "cold"), "start must be warm with predictor km, which is learnt from"),
    (("--load", "0"), "load must be above 0 and at most 1, got 0.0"),
    (("--load", "nan"), "load must be above 0 and at most 1, got nan"),
    (("--load", "1.2"), "load must be above 0 and at most 1, got 1.2"),
    (("--n-seeds", "0"), "n_seeds must be valid: Input should be greater than or equal to 1, got 0"),
    (("--seed", "1", "--seed", "1"), "seeds must be different ones, 0 or more, got 1, 1"),
    (("--seed", "-3"), "seeds must be different ones, 0 or more, got -3"),
    (("--seed", "1", "--n-seeds", "2"), "n_seeds must not be given with seeds, got 2 and [1]"),
    (("--n-requests", "5"), "n_requests must be valid"),
    (("--n-workers", "0"), "n_workers must be valid"),
    (("/none/at/all", "--reader", "openb"), "trace must be a file or folder, got '/none/at/all'"),
])
def test_bad_settings_end_with_one_line(tmp_path: Path, arguments: tuple[str, ...], words: str) -> None:
    result = CliRunner().invoke(app, ["gain", "--store", str(tmp_path / "store"), *arguments])
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert words in result.stderr
    assert not (tmp_path / "store").exists()
