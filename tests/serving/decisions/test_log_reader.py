"""What is logged is what was served, whoever ends and however."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from made_bundles import Made
from sojourn.models.curve_table import CurveTable, HazardTable, OnceTable, PointTable
from sojourn.serving import Lifetime, Predictor
from sojourn.serving.decisions import DecisionBlock, read_log


def replayed(made: Made, kind: str, folder: Path, n: int = 60) -> tuple[Predictor, list[Lifetime]]:
    predictor = Predictor.load(made.folders[kind])
    predictor.log_to(folder, flush_s=60.0)
    vms = [predictor.admit(made.request(idx), int(made.rows.arrival_s[idx]), request_id=f"r{idx}") for idx in range(n)]
    return predictor, vms


def table_of(block: DecisionBlock) -> CurveTable:
    model = block.model
    if model.kind == "hazard":
        edges = np.array(model.edges)
        return HazardTable.from_hazards(edges, block.curves * np.diff(edges), model.tail_s, np.array(model.grid))
    residuals = np.array(model.residuals)
    if model.kind == "once":
        return OnceTable(block.curves[:, 0], model.smearing, residuals)
    return PointTable(np.array(model.thresholds), block.curves, model.smearing, residuals)


@pytest.mark.parametrize("kind", ["hazard", "uptime", "once"])
def test_the_log_gives_the_answers_that_were_served(made: Made, tmp_path: Path, kind: str) -> None:
    predictor, vms = replayed(made, kind, tmp_path)
    for vm in vms[:10]:
        predictor.ended(vm, vm.arrival_s + 50)
    predictor.withdraw(vms[10])
    predictor.stop_logging()
    log = read_log(tmp_path)
    first = int(str(vms[0].id).partition("-")[2])
    (block,) = log.decisions
    assert block.request_id.tolist() == [f"r{idx}" for idx in range(len(vms))]
    handles = [f"{token:016x}-{number}" for token, number in zip(block.token, block.number, strict=True)]
    assert handles == [vm.id for vm in vms]
    np.testing.assert_array_equal(block.features, [vm.features for vm in vms])
    assert block.unknown.tolist() == [vm.unknown for vm in vms]
    assert log.ends[:, 1].tolist() == list(range(first, first + 10))
    assert log.ends[:, 2].tolist() == [vm.arrival_s + 50 for vm in vms[:10]]
    assert log.withdrawals[:, 1].tolist() == [first + 10]
    table = table_of(block)
    for uptime_s in (0.0, 60.0, 7_200.0, 5e6):
        assert table.remaining(uptime_s).tolist() == [vm.remaining(uptime_s) for vm in vms]
        assert table.quantile(0.9, uptime_s).tolist() == [vm.quantile(0.9, uptime_s) for vm in vms]
        np.testing.assert_allclose(table.survival(3_600.0, uptime_s), [vm.survival(3_600.0, uptime_s) for vm in vms],
                                   rtol=1e-12)
    assert predictor.counters["decisions_logged"] == len(vms)
    assert predictor.counters["decisions_lost"] == predictor.counters["log_errors"] == 0
