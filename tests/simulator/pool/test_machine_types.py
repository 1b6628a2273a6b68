"""Machine types: capacities in whole amounts, boot lags, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.simulator.pool import DEFAULT_TYPE, MACHINE_TYPES, BootLag, MachineType, fits_a_type, type_capacities


def test_table_ii_of_the_paper() -> None:
    # 96 cores each; 0.5, 1 and 2 units of 384 GiB = 192, 384 and 768 GiB, in MiB
    assert type_capacities(tuple(MACHINE_TYPES.values()), ("cpu_cores", "mem_gib")).tolist() == [
        [96_000, 196_608], [96_000, 393_216], [96_000, 786_432]]
    assert DEFAULT_TYPE.name == "ecs.ebmg5s.24xlarge"


def test_boot_lags_lie_within_their_limits_and_around_the_mean() -> None:
    lag_s = BootLag(sd_s=90.0).drawn_s(np.random.default_rng(0), 5_000)
    assert lag_s.min() >= 240 and lag_s.max() <= 420
    assert (lag_s < 260).any() and (lag_s > 400).any()
    assert lag_s.mean() == pytest.approx(330, abs=3)
    assert BootLag(5.0, 0.0, 5.0, 5.0).drawn_s(np.random.default_rng(0), 2).tolist() == [5.0, 5.0]


def test_the_same_seed_draws_the_same_lags() -> None:
    first, second = (BootLag().drawn_s(np.random.default_rng(3), 50) for _ in range(2))
    assert first.tobytes() == second.tobytes()


@pytest.mark.parametrize(("lag", "message"), [
    ((330.0, 30.0, 420.0, 240.0), "low_s, mean_s and high_s must be"),
    ((100.0, 30.0, 240.0, 420.0), "low_s, mean_s and high_s must be"),
    ((330.0, -1.0, 240.0, 420.0), "sd_s must be"),
    ((5.0, 1.0, 5.0, 5.0), "sd_s must be"),
    ((330.0, float("nan"), 240.0, 420.0), "sd_s must be"),
])
def test_a_boot_lag_that_is_refused(lag: tuple[float, float, float, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        BootLag(*lag)


@pytest.mark.parametrize("amounts", [{}, {"cpu_cores": 0.0}, {"cpu_cores": -1.0}, {"cpu_cores": float("nan")},
                                     {"cpu_cores": float("inf")}])
def test_a_type_that_holds_nothing_is_refused(amounts: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="capacities of odd must be 0 or more, finite, and not all 0"):
        MachineType("odd", amounts, 1.0)


def test_no_type_and_two_of_one_name_are_refused() -> None:
    with pytest.raises(ValueError, match=r"types must .*, got none"):
        type_capacities((), ("cpu_cores",))
    with pytest.raises(ValueError, match="types must have different names"):
        type_capacities((DEFAULT_TYPE, DEFAULT_TYPE), ("cpu_cores",))
    with pytest.raises(ValueError, match="price_per_h of odd"):
        MachineType("odd", {"cpu_cores": 1.0}, -1.0)


def test_a_request_fits_a_type_only_with_all_of_its_resources() -> None:
    demand = np.array([[4, 1], [1, 4], [4, 4], [5, 0]])
    assert fits_a_type(demand, np.array([[4, 2], [2, 4]])).tolist() == [True, True, False, False]
