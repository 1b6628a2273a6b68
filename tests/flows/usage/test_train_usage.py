"""`sojourn usage train` from end to end on made series: promoted, published, pulled and served; killed in between."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from made_days import made_grid
from sojourn.features import Trace
from sojourn.flows.settings.other_jobs import TrainUsageConfig
from sojourn.flows.tracking.pull import pull
from sojourn.flows.tracking.tracker import CHAMPION, Tracker
from sojourn.flows.versions import promotion as promotion_journal
from sojourn.flows.versions.promotion import open_store
from sojourn.serving import UsagePredictor


def _trace(folder: Path) -> Path:
    grid = made_grid(n=60, n_days=6)
    n, n_steps = grid.cpu.shape
    requests = pd.DataFrame({"request_id": grid.request_ids, "arrival_s": pd.array([0] * n, "Int64"),
                             "departure_s": pd.array([None] * n, "Int64"), "cpu_cores": 1.0, "mem_gib": 1.0})
    usage = pd.DataFrame({"request_id": np.repeat(grid.request_ids, n_steps), "time_s": np.tile(grid.time_s(), n),
                          "cpu_frac": grid.cpu.reshape(-1).astype(float)})
    Trace(requests, n_steps * grid.step_s, usage=usage).save(folder)
    return folder


def test_names_and_readers_are_checked(tmp_path: Path) -> None:
    assert TrainUsageConfig(usage_trace=Path("A b.parquet")).registered_name == "sojourn-lifetime-a-b-parquet-usage"
    assert TrainUsageConfig(usage_trace=Path("x"), model_name="mine-usage").registered_name == "mine-usage"
    with pytest.raises(ValueError, match="usage_reader must be one of alibaba-2018"):
        TrainUsageConfig(usage_trace=tmp_path, usage_reader="csv")


def test_the_run_logs_settings_of_usage_and_no_others() -> None:
    logged = TrainUsageConfig(usage_trace=Path("series"), n_classes=3).resolved()
    assert (logged["model_name"], logged["n_classes"]) == ("sojourn-lifetime-series-usage", 3)
    assert not {"trace", "reader", "horizon_s", "mlflow_uri"} & set(logged)


@pytest.mark.slow
@pytest.mark.usefixtures("prefect_server")
def test_promoted_killed_repaired_pulled_and_served(new_store: Callable[[Path], Path], tmp_path: Path,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    from sojourn.flows.usage.train_usage import train_usage

    store = new_store(tmp_path / "store")
    config = TrainUsageConfig(store=store, usage_trace=_trace(tmp_path / "trace"), n_classes=3, step_s=900, n_threads=1)

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:  # ends like a kill, between the alias and the publishing
        patched.setattr(promotion_journal, "publish_files", killed)
        with pytest.raises(KeyboardInterrupt):
            train_usage(config)
    folder = store / "bundles" / config.registered_name
    assert not folder.exists()
    tracker = open_store(config, (config.registered_name,))  # finishes what was cut off
    first = UsagePredictor.load(folder)
    assert tracker.version_of(config.registered_name, CHAMPION) == 1

    again = train_usage(config)
    assert again.promotion.is_unchanged  # the same bytes
    assert again.section == folder and UsagePredictor.load(folder).version == first.version
    assert first.usage("0").basis == "wave"
    assert {path.name for path in (store / "artifacts").rglob("figures/*.png")} == {"classes.png", "periods.png"}
    registry = Tracker(config.mlflow_uri, store / "artifacts")
    assert pull(registry, config.registered_name, 1, tmp_path / "pulled").bundle_version == first.version
    assert not pull(registry, config.registered_name, 1, tmp_path / "pulled").is_new
