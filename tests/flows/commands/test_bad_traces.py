"""Traces with something missing or odd, from disk through both flows: they train, or refuse by name, rule and value."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from sojourn.features import Roles, Trace
from sojourn.flows.settings.retrain import RetrainConfig
from sojourn.serving import Predictor

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("prefect_server")]

DAY_S = 86_400
HORIZON_S = 10 * DAY_S
ROLES = Roles(("user",), ("zone",), ("ask",))
TRAIN_TO, VALID_TO = 0.58, 0.71
"""Shares of the requests before which those of the train and the valid window stand, a little beyond their cuts."""


def made(n: int = 400, *, lifetime_s: int | None = None, horizon_s: int = HORIZON_S, roles: Roles = ROLES,
         **columns: Any) -> Trace:
    """Requests of ten days that live for 50 minutes in the median, or all for `lifetime_s`; columns replace its own."""
    rng = np.random.default_rng(0)
    arrival_s = np.sort(rng.integers(0, HORIZON_S, n))
    lived_s = np.ceil(rng.lognormal(8, 2, n)).astype(np.int64) if lifetime_s is None else np.full(n, lifetime_s)
    end_s = pd.Series(arrival_s + lived_s, dtype="Int64")
    table = pd.DataFrame({
        "request_id": np.arange(n), "arrival_s": pd.Series(arrival_s, dtype="Int64"),
        "departure_s": end_s.mask(end_s > horizon_s), "cpu_cores": rng.integers(1, 9, n).astype(float),
        "mem_gib": 4.0 * rng.integers(1, 9, n), "user": [f"u{i}" for i in rng.integers(0, 8, n)],
        "zone": [f"z{i}" for i in rng.integers(0, 3, n)], "ask": rng.uniform(0, 10, n)})
    return Trace(table.assign(**columns), horizon_s, roles)


def running(trace: Trace, from_share: float, to_share: float = 1.0) -> Trace:
    """The trace with no end observed for the requests between two shares of its rows."""
    share = np.arange(len(trace)) / len(trace)
    is_running = (share >= from_share) & (share < to_share)
    departure_s = trace.requests["departure_s"].mask(is_running)
    return Trace(trace.requests.assign(departure_s=departure_s), trace.horizon_s, trace.roles)


def moved(trace: Trace, arrival_s: np.ndarray, lifetime_s: int, horizon_s: int) -> Trace:
    """The trace with these arrivals, whose requests all live for `lifetime_s`."""
    arrival, departure = (pd.Series(at_s, dtype="Int64") for at_s in (arrival_s, arrival_s + lifetime_s))
    return Trace(trace.requests.assign(arrival_s=arrival, departure_s=departure), horizon_s, trace.roles)


def config(folder: Path, trace: Trace, name: str, **settings: object) -> RetrainConfig:
    """A small run over `trace`, saved under `name`; all runs of a folder share one store."""
    path = folder / name
    if not path.exists():
        trace.save(path)
    asked = {"families": ("km", "gbdt-once", "hazard"), "n_threads": 1, "simulate": False, "n_draws": 20,
             **settings}
    return RetrainConfig(store=folder / "store", trace=path, reader="parquet", **asked)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bad")


SPREAD_S = np.linspace(0, 300 * DAY_S, 400).astype(np.int64)
REFUSED: dict[str, tuple[Callable[[], Trace], str]] = {
    "one-request": (lambda: made(1), "a trace must have at least 10 requests with a known start to be split, got 1"),
    "no-request": (lambda: made(0), "at least 10 requests with a known start to be split, got 0"),
    "no-start": (lambda: made(arrival_s=pd.NA), "at least 10 requests with a known start to be split, got 0"),
    "all-censored": (lambda: running(made(), 0.0),
                     r"the train window must hold at least one observed end, got \d+ requests that all still ran at "
                     r"its end, second \d+"),
    "valid-censored": (lambda: running(made(), TRAIN_TO, VALID_TO),
                       r"the valid window must hold at least one observed end, got \d+ requests"),
    "all-outlive": (lambda: moved(made(), np.arange(400) * 2_000, 30 * DAY_S, 50 * DAY_S),
                    "the train window must hold at least one observed end"),
    "same-second": (lambda: moved(made(), np.zeros(400, np.int64), 60, HORIZON_S),
                    "the train window must hold requests, got none: the windows are cut at seconds 0 and 0"),
    "all-before": (lambda: moved(made(), np.arange(400) * 100 - 40_000, 50_000, HORIZON_S),
                   r"the train window must hold requests, got none: the windows are cut at seconds -\d+ and -\d+"),
    "infinite-number": (lambda: made(ask=np.inf), "ask must be finite, got inf"),
    "number-as-text": (lambda: made(ask="much"), "ask must be a number, got 'much'"),
}
"""Name of a trace -> how it is made, and what is said of it."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_learnt_from_is_refused_with_a_reason(folder: Path, name: str) -> None:
    from sojourn.flows.retrain.job import retrain
    from sojourn.flows.study.study import study

    make, message = REFUSED[name]
    asked = config(folder, make(), name)
    for flow in (retrain, study):
        with pytest.raises(ValueError, match=message):
            flow(asked)
    assert not (folder / "store" / "bundles").exists()


TRAINED: dict[str, Callable[[], Trace]] = {
    "no-owner": lambda: made(roles=Roles((), ("zone",), ("ask",))),
    "no-attribute": lambda: made(roles=Roles()),
    "constant": lambda: made(cpu_cores=1.0, mem_gib=0.0, user="u", zone="z", ask=1.0),
    "nothing-known": lambda: made(user=None, zone=None, ask=np.nan),
    "a-huge-number": lambda: made(ask=np.arange(400) * 1e300),
    "every-owner-once": lambda: made(user=[f"u{i}" for i in range(400)]),
    "twelve-requests": lambda: made(12),
    "test-censored": lambda: running(made(), 0.69),
    "all-live-1s": lambda: made(lifetime_s=1),
    "all-live-0s": lambda: made(lifetime_s=0),
    "all-live-30-days": lambda: moved(made(), SPREAD_S, 30 * DAY_S, 400 * DAY_S),
    "all-live-5-years": lambda: moved(made(), SPREAD_S * 100, 5 * 365 * DAY_S, 40_000 * DAY_S),
}
"""Name of a trace -> how it is made. The ages that a model tells apart end at three years."""
STUDIED = ("twelve-requests", "nothing-known", "test-censored", "all-live-5-years")
"""A study evaluates as a retrain does: some are enough."""


@pytest.mark.parametrize("name", TRAINED)
def test_what_is_odd_trains_and_answers(folder: Path, name: str) -> None:
    from sojourn.flows.retrain.job import retrain
    from sojourn.flows.study.study import study

    asked = config(folder, TRAINED[name](), name)
    done = retrain(asked)
    evaluated = [done.evaluation]
    if name in STUDIED:
        evaluated.append(study(asked))
        assert not evaluated[-1].refused
    for each in evaluated:
        assert set(each.scores) == {"km", "gbdt-once", "hazard"}
        assert all(np.isfinite(list(scores.values())).all() for scores in each.scores.values())
    assert done.promotion.alias == "challenger"  # too small to be evidence, or not simulated

    predictor = Predictor.load(done.bundle)
    for request in ({}, {"cpu_cores": 4, "mem_gib": 16}):
        life = predictor.admit(request, now_s=HORIZON_S)
        answers = [answer for at_s in (0, 3_600, 10**9) for answer in (life.remaining(at_s), life.quantile(0.5, at_s))]
        assert np.isfinite(answers).all() and min(answers) >= 0
        if "1s" not in name and "0s" not in name:  # whole seconds: half a second may be none
            assert life.remaining(0) > 0


@pytest.mark.parametrize(("name", "make"), [
    ("zero-size", lambda: made(cpu_cores=0.0, mem_gib=0.0)),
    ("test-censored", lambda: running(made(), 0.69)),
    ("all-live-1s", lambda: made(lifetime_s=1)),
])
def test_what_is_odd_is_simulated(folder: Path, name: str, make: Callable[[], Trace]) -> None:
    from sojourn.flows.retrain.job import retrain

    done = retrain(config(folder, make(), name, simulate=True, n_replicas=1))
    simulation = done.evaluation.simulation
    assert simulation is not None and (simulation.table["n_rejected"] == 0).all()
    assert np.isfinite(simulation.table["empty_hosts_pct"]).all()


def test_requests_of_which_no_host_holds_one_are_refused(folder: Path) -> None:
    from sojourn.flows.retrain.job import retrain

    with pytest.raises(ValueError, match=r"requests must be at least one, got none \(\d+ larger than every host\)"):
        retrain(config(folder, made(cpu_cores=1_000.0), "too-large", simulate=True, n_replicas=1,
                       host_cpu_cores=96.0, host_mem_gib=384.0))
