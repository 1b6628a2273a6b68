"""A shadow answers what the champion answers, changes nothing, and costs no answer however it fails."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from made_bundles import Made, publish, rewrite_schema
from sojourn.serving import BundleError, Predictor, prometheus_text
from sojourn.serving.decisions import read_log

N = 40


def admitted(predictor: Predictor, made: Made) -> list[float]:
    vms = [predictor.admit(made.request(idx), int(made.rows.arrival_s[idx]), request_id=str(idx)) for idx in range(N)]
    predictor.flush_decisions()
    return [vm.remaining(0.0) for vm in vms]


def test_the_shadow_answers_as_if_it_were_asked_itself(made: Made, tmp_path: Path) -> None:
    alone = admitted(Predictor.load(made.folders["hazard"]), made)
    other = admitted(Predictor.load(made.folders["uptime"]), made)
    predictor = Predictor.load(made.folders["hazard"], shadow=made.folders["uptime"])
    predictor.log_to(tmp_path)
    assert admitted(predictor, made) == alone
    predictor.stop_logging()
    log = read_log(tmp_path)
    (block,), (shadow,) = log.decisions, log.shadows
    assert shadow.number.tolist() == block.number.tolist()
    smearing = shadow.model.smearing
    assert [float(round(min(10.0**score * smearing, 3 * 365 * 86_400.0))) for score in shadow.curves[:, 0]] == other
    counters = predictor.counters
    assert (counters["shadow_predictions"], counters["shadow_errors"]) == (N, 0)
    assert predictor.shadow()["log10_ratio"][0.9] > 0.0
    assert 'sojourn_shadow_log10_ratio{quantile="0.9"}' in prometheus_text(predictor)


def test_a_shadow_of_the_same_bundle_differs_in_nothing(made: Made) -> None:
    predictor = Predictor.load(made.folders["once"], shadow=made.folders["once"])
    admitted(predictor, made)
    assert predictor.shadow()["log10_ratio"] == {0.5: 0.0, 0.9: 0.0, 0.99: 0.0}
    assert predictor.counters["shadow_class_changes"] == 0


def test_a_shadow_that_cannot_be_loaded_costs_no_answer(made: Made, tmp_path: Path) -> None:
    broken = Path(shutil.copytree(made.folders["hazard"], tmp_path / "broken"))
    (broken / "model.onnx").write_bytes(b"")
    predictor = Predictor.load(made.folders["hazard"], shadow=broken)
    assert admitted(predictor, made) == admitted(Predictor.load(made.folders["hazard"]), made)
    assert predictor.shadow()["version"] is None and "model.onnx" in predictor.shadow()["reason"]
    assert predictor.counters["shadow_errors"] == 1
    assert "shadow_log10" not in prometheus_text(predictor)


def test_a_shadow_of_another_history_definition_is_refused(made: Made, tmp_path: Path) -> None:
    other = Path(shutil.copytree(made.folders["hazard"], tmp_path / "other"))
    rewrite_schema(other, lambda schema: schema["history"].update(batch_gap_s=schema["history"]["batch_gap_s"] + 1))
    predictor = Predictor.load(made.folders["hazard"], shadow=other)
    assert predictor.shadow()["version"] is None
    with pytest.raises(BundleError):
        predictor.reload_shadow()


def test_a_shadow_that_fails_is_counted_and_the_log_goes_on(
        made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = Predictor.load(made.folders["hazard"], shadow=made.folders["uptime"])
    predictor.log_to(tmp_path)
    shadow = predictor._decisions.shadow
    assert shadow is not None
    answer, asked = shadow.answer, []

    def fails(one: object) -> object:
        asked.append(one)
        if len(asked) % 2:
            raise MemoryError
        return answer(one)  # type: ignore[arg-type]

    monkeypatch.setattr(shadow, "answer", fails)
    admitted(predictor, made)
    predictor.stop_logging()
    counters = predictor.counters
    assert (counters["shadow_errors"], counters["shadow_predictions"]) == (N // 2, N // 2)
    log = read_log(tmp_path)
    assert (len(log.decisions[0]), len(log.shadows[0].token)) == (N, N // 2)


def test_another_challenger_is_followed(made: Made, tmp_path: Path) -> None:
    folder = tmp_path / "challenger"
    publish(made.folders["hazard"], folder)
    predictor = Predictor.load(made.folders["hazard"], shadow=folder)
    told: list[str] = []
    with predictor.watch(interval_s=60.0, on_event=lambda event: told.append(event.version)) as watch:
        publish(made.folders["once"], folder)
        assert watch._beside is not None
        watch._beside.poll()
    assert told == [predictor.shadow()["version"]]
    admitted(predictor, made)
    assert predictor.counters["shadow_predictions"] == N
