"""The study `ctcl-table` on a small made mix, and the claims' verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

from sojourn.flows.settings.store import load_settings
from sojourn.simulator.mixed import SCHEDULERS, replay_mixed, true_needs
from studies.ctcl import (
    BEST,
    CLAIMS,
    FIGURES,
    STEPS,
    change_pct,
    claims_section,
    figure_5_to_7,
    mean_wait_s,
    mix_source,
    replayed,
    rows,
    run_ctcl_table,
    steps_section,
    summary,
    verdict,
)
from studies.settings import StudySettings

QUICK = ("trace", "k8s", "demand-blind", "ctcl own maximum 12h", "ctcl oracle")


def test_every_line_of_the_paper_is_there() -> None:
    names = set(rows())
    assert {"trace", "k8s", "demand-blind", "ctcl 10c-12h", "ctcl 30c-24h", BEST} <= names
    assert {claim.base for claim in CLAIMS} | {claim.of for claim in CLAIMS} | set(FIGURES) <= names
    assert {*STEPS, "k8s + order"} <= names


def test_each_step_from_k8s_takes_over_one_rule_of_ctcl() -> None:
    made = rows()
    k8s, ctcl = SCHEDULERS["k8s"], SCHEDULERS["ctcl"]
    types, no_margin, order, own, classes = (made[name].scheduler for name in STEPS[1:])
    assert made[STEPS[0]].scheduler == k8s
    assert made["k8s + order"].scheduler == replace(k8s, evictor=ctcl.evictor)
    assert types == no_margin == replace(k8s, autoscaler=ctcl.autoscaler)
    assert order == replace(types, evictor=ctcl.evictor)
    assert own == classes == ctcl
    workload = mix_source(None, "synthetic", None, 500, Path()).of_seed(0)
    with_margin, without, at_last = (made[name].needs(workload) for name in (STEPS[1], STEPS[2], STEPS[3]))
    assert with_margin is not None and without is not None and at_last is not None
    known = ~np.isnan(without)
    np.testing.assert_array_equal(with_margin[known], 1.15 * without[known])
    assert known.any()
    np.testing.assert_array_equal(without, at_last)


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
def test_the_study_prints_and_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str],
                                    monkeypatch: pytest.MonkeyPatch) -> None:
    made = rows()
    quick = {name: made[name if not name.startswith("ctcl") else "ctcl own maximum 12h"] for name in
             ("trace", "demand-blind", "ctcl 20c-12h", "ctcl 10c-24h", "k8s + order", *STEPS)}
    monkeypatch.setattr("studies.ctcl.rows", lambda: quick)
    monkeypatch.setattr("studies.ctcl.console", Console(width=80))
    config = load_settings(StudySettings, None, preset="ctcl-table", n_requests=1_000, n_seeds=2, store=tmp_path)
    assert run_ctcl_table(config) == 0
    out = capsys.readouterr().out
    for title in ("Table IV: resource efficiency", "Table V: batch requests rescheduled", "From k8s to ctcl",
                  "Claims of the paper"):
        assert title in out
    assert "made mix: 4 services, 1000 batch requests, 8 days; 2 seeds." in " ".join(out.split())
    assert max(len(line.rstrip()) for line in out.splitlines()) <= 80


def replay_rows(cluster: Mapping[str, Sequence[float]], wait_s: Mapping[str, float]) -> pd.DataFrame:
    """Two seeds of the lines that claims and steps read; 1 where nothing is given."""
    names = {claim.base for claim in CLAIMS} | {claim.of for claim in CLAIMS} | {*STEPS, "k8s + order"}
    columns = {claim.column for claim in CLAIMS} | {"price_per_h"}
    return pd.DataFrame([
        {"algorithm": name, "seed": seed, **dict.fromkeys(columns, 1.0), "n_multi_rescheduled": 0.0,
         "n_machines": cluster.get(name, (1.0, 1.0))[seed], "mean_wait_s": wait_s.get(name, 1.0)}
        for name in sorted(names) for seed in range(2)])


def test_the_steps_to_ctcl_add_up_to_the_whole_difference() -> None:
    sizes = [(10.0, 20.0), (11.0, 22.0), (10.0, 20.0), (8.0, 18.0), (8.0, 16.0), (8.0, 16.0)]
    replays = replay_rows({**dict(zip(STEPS, sizes, strict=True)), "k8s + order": (8.0, 16.0)},
                          {"k8s": 13.0, BEST: 4.7})
    lines = {row[0]: row[1:] for row in steps_section(replays, "c").rows}
    assert list(lines) == ["k8s + order", *STEPS]
    assert lines["k8s + order"][:2] == ("-", "-20.0 ± 0.0")  # 8 of 10 and 16 of 20
    assert lines["k8s"] == ("-", "-", "-", "-", "13.0")
    steps = [lines[name][0].split(" ")[0] for name in STEPS[1:]]
    # 8 and 18 of 10 and 20: -20 and -10 %; then -20 and -20 %
    assert steps == ["+10.0", "-10.0", "-15.0", "-5.0", "0.0"]
    assert lines[BEST][1] == "-20.0 ± 0.0" and lines[BEST][-1] == "4.7"


def test_a_cluster_size_has_the_waiting_time_beside_it() -> None:
    replays = replay_rows({}, {"trace": 410.4, BEST: 4.8})
    lines = {row[:2]: row for row in claims_section(replays, "c").rows}
    assert lines["mean cluster size", "trace"][4] == "5/410"


def test_waiting_lasts_from_arrival_to_the_run_that_ended() -> None:
    workload = mix_source(None, "synthetic", None, 500, Path()).of_seed(0)
    result = replay_mixed(workload, "ctcl", true_needs(workload.services), rng=np.random.default_rng(0))
    arrival_ms = workload.batch.arrival_ms
    late = replace(result, started_ms=arrival_ms + np.where(result.batch_outcome == 3, 7_000, -1))
    assert mean_wait_s(late, workload) == 7.0
    none = replace(result, batch_outcome=np.full(len(arrival_ms), 1))
    assert np.isnan(mean_wait_s(none, workload))


def test_changes_are_paired_by_seed_and_judged_by_size_and_interval() -> None:
    base = pd.DataFrame({"seed": [0, 1], "x": [10.0, 0.0]})
    np.testing.assert_array_equal(change_pct(base.assign(x=[5.0, 1.0]), base, "x"), [-50.0, np.nan])
    assert verdict(-50.0, 5.0, -40.0) == "reproduced"
    assert verdict(-50.0, 60.0, -40.0) == "refuted"  # the interval holds 0
    assert verdict(-20.0, 5.0, -40.0) == "smaller"
    assert verdict(20.0, 5.0, -40.0) == "refuted"
    assert verdict(float("nan"), float("nan"), -40.0).startswith("not testable")


def test_a_request_rescheduled_twice_refutes_the_claim() -> None:
    replays = replay_rows({}, {})
    assert claims_section(replays, "c").rows[-1][-3:] == ("0 (0 to 0)", "-", "reproduced")
    replays.loc[(replays["algorithm"] == BEST) & (replays["seed"] == 1), "n_multi_rescheduled"] = 3.0
    assert claims_section(replays, "c").rows[-1][-3:] == ("2 (0 to 3)", "-", "refuted")


def test_what_a_source_refuses(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="batch_trace must be given with a trace of services"):
        mix_source(None, "synthetic", tmp_path, 1_000, tmp_path)
    with pytest.raises(ValueError, match="reader must have usage for ctcl-table"):
        mix_source(tmp_path, "swf", None, 1_000, tmp_path)
    with pytest.raises(ValueError, match="batch_trace must be given with reader bitbrains"):
        mix_source(tmp_path, "bitbrains", None, 1_000, tmp_path)
