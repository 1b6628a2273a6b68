"""The preset `ctcl-table` on a small made mix, and the claims' verdicts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from sojourn.flows.compare.compare_config import CompareConfig
from sojourn.flows.evaluations.ctcl_claims import BEST, CLAIMS, change_pct, claims_section, verdict
from sojourn.flows.evaluations.ctcl_figure import figure_5_to_7
from sojourn.flows.evaluations.ctcl_table import FIGURES, replayed, rows, run_ctcl_table, summary
from sojourn.flows.evaluations.mix_source import mix_source
from sojourn.flows.loaded_settings import load_settings

QUICK = ("trace", "k8s", "demand-blind", "ctcl own maximum 12h", "ctcl oracle")


def test_every_line_of_the_paper_is_there() -> None:
    names = set(rows())
    assert {"trace", "k8s", "demand-blind", "ctcl 10c-12h", "ctcl 30c-24h", BEST} <= names
    assert {claim.base for claim in CLAIMS} | {claim.of for claim in CLAIMS} | set(FIGURES) <= names


@pytest.mark.slow
def test_lines_are_replayed_on_the_same_workloads(tmp_path: Path) -> None:
    source = mix_source(None, "synthetic", None, 2_000, tmp_path)
    assert source.of_seed(0).services.used.tobytes() == source.of_seed(1).services.used.tobytes()
    assert source.of_seed(0).batch.arrival_ms.tolist() != source.of_seed(1).batch.arrival_ms.tolist()
    replays, series = replayed(source, {name: rows()[name] for name in QUICK}, (0, 1))
    assert replays["algorithm"].tolist() == [name for name in QUICK for _ in range(2)]
    ends = replays[["n_ended", "n_too_large", "n_pending", "n_running"]].sum(axis=1)
    assert (ends == 2_000).all()  # every batch request has one end
    table = summary(replays).set_index("algorithm")
    assert table.loc["k8s", "cpu_pct"] == pytest.approx(replays[replays["algorithm"] == "k8s"]["cpu_pct"].mean())
    assert set(series["algorithm"]) == {"trace", "k8s", "demand-blind"}
    shown = figure_5_to_7(series, ("trace", "k8s"), "title")
    assert [len(axes.lines) for axes in shown.axes] == [2, 2, 2]


@pytest.mark.slow
def test_the_preset_prints_and_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    made = rows()
    quick = {name: made[name if not name.startswith("ctcl") else "ctcl own maximum 12h"] for name in
             ("trace", "k8s", "demand-blind", "ctcl 20c-12h", "ctcl 10c-24h", BEST)}
    monkeypatch.setattr("sojourn.flows.evaluations.ctcl_table.rows", lambda: quick)
    config = load_settings(CompareConfig, None, preset="ctcl-table", n_requests=1_000, n_seeds=2, store=tmp_path)
    assert run_ctcl_table(config) == 0
    out = capsys.readouterr().out
    for title in ("Table IV: resource efficiency", "Table V: batch requests rescheduled", "Claims of the paper"):
        assert title in out
    assert "made mix: 4 services, 1000 batch requests, 8 days; 2 seeds." in " ".join(out.split())


def test_changes_are_paired_by_seed_and_judged_by_size_and_interval() -> None:
    base = pd.DataFrame({"seed": [0, 1], "x": [10.0, 0.0]})
    np.testing.assert_array_equal(change_pct(base.assign(x=[5.0, 1.0]), base, "x"), [-50.0, np.nan])
    assert verdict(-50.0, 5.0, -40.0) == "reproduced"
    assert verdict(-50.0, 60.0, -40.0) == "refuted"  # the interval holds 0
    assert verdict(-20.0, 5.0, -40.0) == "smaller"
    assert verdict(20.0, 5.0, -40.0) == "refuted"
    assert verdict(float("nan"), float("nan"), -40.0).startswith("not testable")


def test_a_request_rescheduled_twice_refutes_the_claim() -> None:
    names = {claim.base for claim in CLAIMS} | {claim.of for claim in CLAIMS}
    columns = {claim.column for claim in CLAIMS}
    replays = pd.DataFrame([{"algorithm": name, "seed": seed, "n_multi_rescheduled": 0.0, **dict.fromkeys(columns, 1.0)}
                            for name in names for seed in range(2)])
    assert claims_section(replays, "c").rows[-1][-2:] == ("0 (0 to 0)", "reproduced")
    replays.loc[(replays["algorithm"] == BEST) & (replays["seed"] == 1), "n_multi_rescheduled"] = 3.0
    assert claims_section(replays, "c").rows[-1][-2:] == ("2 (0 to 3)", "refuted")


def test_what_a_source_refuses(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="batch_trace must be given with a trace of services"):
        mix_source(None, "synthetic", tmp_path, 1_000, tmp_path)
    with pytest.raises(ValueError, match="reader must have usage for ctcl-table"):
        mix_source(tmp_path, "swf", None, 1_000, tmp_path)
    with pytest.raises(ValueError, match="batch_trace must be given with reader bitbrains"):
        mix_source(tmp_path, "bitbrains", None, 1_000, tmp_path)
