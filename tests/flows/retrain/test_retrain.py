"""The main job from end to end on a small synthetic trace: promoted, refused, served."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sojourn.features.synthetic import START_UNIX_S
from sojourn.flows.retrain.ingest import content_hash
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.flows.tracking.tracker import (
    CHALLENGER,
    CHAMPION,
    GATES_FAILED,
    NAME_LIMIT,
    NOTE,
    SHOWN_METRICS,
    SYSTEM,
    Tracker,
)
from sojourn.models.measures import time_label
from sojourn.serving import Predictor, load_bundle

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def store(new_store: Callable[[Path], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_store(tmp_path_factory.mktemp("store"))


def _config(store: Path, **settings: object) -> RetrainConfig:
    return RetrainConfig(store=store, n_requests=6_000, n_threads=1, n_replicas=2, max_replicas=2, **settings)  # type: ignore[arg-type]


@pytest.mark.usefixtures("prefect_server")
def test_first_champion_then_challenger_then_served(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from sojourn.flows.retrain.job import retrain

    first = retrain(_config(store))
    printed = capsys.readouterr().out
    assert first.promotion.version == 1
    assert [gate.name for gate in first.promotion.gates][:3] == [
        "bit parity of the export", "size of the forest", "time to build a curve"]
    assert all(gate.is_passed for gate in first.promotion.gates[:3])
    for part in ("hazard", "km", "gbdt-once", "mixture", "Refresh, test window", "nilas", "oracle", "best-fit",
                 "bundle", "sojourn store ui"):
        assert part in printed
    served = load_bundle(first.bundle).refresh
    rows = [[cell.strip() for cell in line.split("│")[1:-1]] for line in printed.splitlines() if "│" in line]
    is_served = {cells[0]: cells[-1] == "yes" for cells in rows if cells[-1] in ("yes", "no")}
    assert len(is_served) >= 3
    assert {time_label(age_s) for age_s in ([] if served is None else served.ages_s)} == {
        age for age, is_in in is_served.items() if is_in}

    tracker = Tracker(_config(store).mlflow_uri, store / "artifacts")
    alias = first.promotion.alias
    assert tracker.version_of("sojourn-lifetime", alias) == 1

    # same data, same seed, same bytes: nothing is registered
    tracker.set_alias("sojourn-lifetime", CHAMPION, 1)
    capsys.readouterr()
    again = retrain(_config(store, again=True))
    assert (again.promotion.version, again.promotion.is_unchanged) == (1, True), again.promotion.gates
    assert "sojourn-lifetime version 1 stays champion: this run made the same bytes" in capsys.readouterr().out
    assert again.bundle == store / "bundles" / "sojourn-lifetime"

    # nothing is trained where a finished run stands: it is found, and its tables are printed
    standing = retrain(_config(store))
    assert (standing.promotion.version, standing.promotion.alias, standing.evaluation) == (1, CHAMPION, None)
    printed = capsys.readouterr().out
    for part in ("hazard", "nilas", "best-fit", "nothing has changed since the run", "version 1 stays champion"):
        assert part in printed
    assert len(list((store / "artifacts").rglob("shap.png"))) == 2

    # the same forest beside another threshold is no worse than itself; a bound that it breaks makes it the challenger
    second = retrain(_config(store, long_lived_s=80_000))
    assert (second.promotion.version, second.promotion.alias) == (2, CHAMPION), second.promotion.gates
    names = [gate.name for gate in second.promotion.gates]
    assert {"accuracy against km", "accuracy against champion v1", "empty hosts by nilas against champion v1"
            } <= {*names}
    # level with version 1, so that is still the best so far, which a later candidate is compared with, too
    tags = tracker.version_tags("sojourn-lifetime", 2)
    assert (tags["best.accuracy"], tags["best.placement"]) == ("1", "1")
    served = second.bundle / "MANIFEST.json"
    assert second.bundle == store / "bundles" / "sojourn-lifetime"
    inode = served.stat().st_ino
    third = retrain(_config(store, max_bundle_mb=0.001))
    assert third.promotion.alias == CHALLENGER
    assert {"accuracy against champion v2", "accuracy against best so far v1"} <= {
        gate.name for gate in third.promotion.gates}
    assert third.bundle.parent == store / "candidates" / "sojourn-lifetime"
    assert load_bundle(third.bundle).version == load_bundle(tracker.fetch("sojourn-lifetime", 3, store / "3")).version
    assert served.stat().st_ino == inode  # what a scheduler loads is the champion still
    assert tracker.version_of("sojourn-lifetime", CHAMPION) == 2
    assert tracker.version_of("sojourn-lifetime", CHALLENGER) == 3

    fetched = [tracker.fetch("sojourn-lifetime", version, store / f"fetched-{version}") for version in (1, 2, 3)]
    assert [(folder / "MANIFEST.json").read_bytes() == (fetched[0] / "MANIFEST.json").read_bytes()
            for folder in fetched] == [True, False, True]

    predictor = Predictor.load(second.bundle)
    life = predictor.admit({"subscription": "nobody", "cpu_cores": 4, "mem_gib": 16}, now_s=1_706_486_400)
    assert life.remaining(0) > 0
    assert "subscription" in life.not_seen
    schema = json.loads((second.bundle / "schema.json").read_text())
    assert schema["training"]["trace"] == "synthetic"
    assert schema["training"]["start_unix_s"] == START_UNIX_S
    assert schema["training"]["content_hash"] == content_hash(_config(store).source)
    assert schema["training"]["given_shares"] == dict.fromkeys(predictor.encoder.columns(), 1.0)
    assert len(schema["background"]) == 16
    assert len(list((store / "artifacts").rglob("shap.png"))) == 4  # the candidate's, in each of the runs


def _last(name: str) -> str:
    return name.rpartition("/")[2]


@pytest.mark.usefixtures("prefect_server")
def test_a_measure_has_the_same_name_only_where_the_same_judged_it(store: Path) -> None:
    import mlflow

    client = mlflow.MlflowClient(*[_config(store).mlflow_uri.plain] * 2)
    versions = sorted(client.search_model_versions("name = 'sojourn-lifetime'"), key=lambda each: int(each.version))
    names = [set(client.get_run(version.run_id or "").data.metrics) for version in versions]
    assert len(versions) == 3
    first, second, third = versions  # the second has another threshold of "long-lived"
    keys = [version.tags["judged_on"] for version in (first, second, third)]
    assert keys[0] == keys[2] != keys[1]
    assert keys[0].startswith("synthetic-")
    assert not any(name.startswith(f"{keys[0]}/") for name in names[1])
    assert {GATES_FAILED, "vs_km_pct", "host_gain_pp"} <= names[0]
    paired = {name for name in names[0] if name.startswith("against_") or name in SHOWN_METRICS}
    assert {"against_km.brier_pct.low", "against_best_fit.joint-fit_pp"} <= paired
    assert names[0] == paired | {f"{keys[0]}/{name}" for name in map(_last, names[0] - paired)}
    assert names[1] - names[0] >= {"against_champion.brier_pct", f"{keys[1]}/ages.ibs"}
    champions = {"vs_champ_pct", *(f"against_champion.brier_pct{side}" for side in ("", ".low", ".high"))}
    assert {*map(_last, names[0])} | champions == {*map(_last, names[1])} == {*map(_last, names[2])}
    assert {"ages.ibs", "creation.mae_log10_lifetime", "age_1h.mae_log10_remaining", "sim.nilas.gain_pp"
            } <= {*map(_last, names[0])}
    assert "not_comparable_with" not in first.tags
    assert second.tags["not_comparable_with"] == f"version 1, then champion, which {keys[0]} judged"
    assert "**Not comparable** with version 2, then champion" in (third.description or "")
    runs = [client.get_run(version.run_id or "") for version in (second, third)]
    assert [run.info.run_name[:12] for run in runs] == ["✓ synthetic ", "✗ synthetic "]
    assert all(len(run.info.run_name) <= NAME_LIMIT for run in runs)
    assert [run.data.metrics[GATES_FAILED] > 0 for run in runs] == [False, True]
    for run, found in zip(runs, (second, third), strict=True):
        note = run.data.tags[NOTE]
        assert note.split("\n")[0] == (found.description or "").split("\n")[0]  # the verdict
        assert f"[bundle](#/experiments/{run.info.experiment_id}/runs/{run.info.run_id}/artifacts/bundle)" in note
        assert note.split("\n")[2].startswith("Its predictions are ")  # the page shows the first lines
        assert run.data.params["judged_on"] == run.data.tags["judged_on"]
        assert {each.path for each in client.list_artifacts(run.info.run_id)} == {
            "bundle", "overview.png", "accuracy.png", "tables.txt", "read-report.txt", SYSTEM}
        assert {each.path for each in client.list_artifacts(run.info.run_id, SYSTEM)} == {
            f"{SYSTEM}/refresh.txt", f"{SYSTEM}/simulation.csv"}
    assert {run.data.tags["kind"] for run in runs} == {"retrain"}
    page = client.get_registered_model("sojourn-lifetime")
    assert "how long a request" in page.description
    assert page.tags == {"made_by": "sojourn", "answers": "lifetime", "trace": "synthetic"}
    inputs = [client.get_run(version.run_id or "").inputs for version in versions]
    data = [{(each.dataset.name, each.dataset.digest) for each in found.dataset_inputs} for found in inputs if found]
    assert len(data[0]) == 2
    assert data[0] == data[1] == data[2]
    cards = [version.description or "" for version in versions]
    for card in cards:
        verdict, numbers, loading, measures = (card.index(words) for words in (
            "gates", "| test window | value | 95 % interval |", "predictor = Predictor.load", "| measure | value |"))
        assert verdict < numbers < loading < measures
        assert "share of ends within the predicted 10 to 90 %" in card
        assert "bit parity of the export: 0 of" in card  # gates say parity, size and latency
