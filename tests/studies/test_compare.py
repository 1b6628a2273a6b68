"""Comparisons with policies of the studies."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from sojourn.flows.compare.settings import CompareConfig
from sojourn.simulator import POLICIES
from sojourn.simulator.policies import add_policies, added_code
from studies.__main__ import main
from studies.compare import COMPARISONS, ComparedSettings
from studies.policies import STUDY_POLICIES


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_comparison_is_a_grid(name: str) -> None:
    chosen = COMPARISONS[name]
    assert set(chosen.policies) <= {*POLICIES, *STUDY_POLICIES}
    config = ComparedSettings(preset=name, policies=chosen.policies, predictors=chosen.predictors)
    assert len(config.cells()) > len(chosen.policies) * len(config.seeds)
    assert config.n_workers == 1 and config.about.startswith(chosen.about[:1].upper())


def test_no_policy_of_a_study_is_one_of_the_products() -> None:
    assert not STUDY_POLICIES.keys() & POLICIES.keys()


def test_what_is_kept_of_an_added_policy_is_keyed_by_its_code() -> None:
    [cell] = [each for each in CompareConfig(policies=("lava-95",), seeds=(0,)).cells() if each.policy == "lava-95"]
    before, code = cell.key(), added_code("lava-95")
    assert len(code) == 64
    try:
        add_policies([STUDY_POLICIES["lava-95"]], "other code")
        assert cell.key() != before
    finally:
        add_policies([STUDY_POLICIES["lava-95"]], code)
    assert cell.key() == before


@pytest.mark.slow
@pytest.mark.parametrize("words", [
    ("ablations", "--policy", "lava-no-class-up"), ("compare", "--policy", "hybrid", "--policy", "move-to-front")])
def test_a_small_comparison_is_replayed_logged_and_written(
        words: tuple[str, ...], tmp_path: Path, new_store: Callable[[Path], Path],
        monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.html"
    monkeypatch.setattr(sys, "argv", ["studies", *words, "--predictor", "oracle", "--n-requests", "1000", "--seed", "0",
                                      "--store", str(new_store(tmp_path / "store")), "--page", str(page)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0 and page.is_file()
    assert set(pd.read_csv(tmp_path / "page-cells.csv")["policy"]) >= {*words[2::2], "best-fit"}
