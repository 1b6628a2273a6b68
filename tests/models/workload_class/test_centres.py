"""k-means++ by seeds, ids across clusterings, and the rules for few requests."""

from __future__ import annotations

import numpy as np
import pytest

from sojourn.models.workload_class import Centres, cluster, cluster_again


def _rows(levels: list[float], n: int) -> np.ndarray:
    return np.repeat(np.array(levels), n)[:, None] + np.linspace(0.0, 0.01, n * len(levels))[:, None] * np.ones((1, 4))


def test_groups_are_found_and_the_same_seed_gives_the_same_bytes() -> None:
    rows = _rows([0.1, 0.5, 0.9], 5)
    one, other = cluster(rows, 3, seed=1), cluster(rows, 3, seed=1)
    assert sorted(np.bincount(one.labels).tolist()) == [5, 5, 5]
    assert one.centres.tobytes() == other.centres.tobytes()


def test_fewer_requests_than_classes_are_a_class_each() -> None:
    found = cluster(np.array([[0.1, 0.1], [0.1, 0.1], [0.9, 0.9]]), 20)
    assert len(found.ids) == 2
    assert found.ids[found.labels].tolist() == [0, 0, 1]  # the larger class first


def test_a_centre_of_zeros_is_not_below_zero() -> None:
    # KMeans subtracts the mean of all rows and adds it again: -1.1e-16 here, which no class may have
    rows = np.vstack([np.zeros((5, 4)), 0.5 + np.random.default_rng(0).random((11, 4))])
    before = Centres(np.array([0, 1]), np.array([np.zeros(4), np.ones(4)]), np.zeros(16, np.int64), 2)
    assert cluster_again(rows, before, 2).centres.min() == 0.0


@pytest.mark.parametrize("rows", [np.empty((0, 4)), np.full((2, 4), np.nan), np.ones(4)])
def test_what_cannot_be_clustered_is_refused(rows: np.ndarray) -> None:
    with pytest.raises(ValueError, match="profiles must be"):
        cluster(rows, 2)


def test_ids_stay_when_centres_move_and_the_order_changes() -> None:
    before = Centres(np.array([7, 3]), np.array([[0.1] * 4, [0.9] * 4]), np.array([0, 1]), 8)
    again = cluster_again(_rows([0.85, 0.15], 4), before, 2)
    by_id = dict(zip(again.ids.tolist(), again.centres[:, 0].round(1).tolist(), strict=True))
    assert by_id == {7: 0.2, 3: 0.9}
    assert again.next_id == 8


def test_a_class_that_vanishes_takes_its_id_and_a_new_one_gets_the_next() -> None:
    before = Centres(np.array([0, 1]), np.array([[0.1] * 4, [0.2] * 4]), np.array([0, 1]), 2)
    again = cluster_again(_rows([0.1, 0.95], 4), before, 2)  # nothing near 0.2 is left
    level = dict(zip(again.ids.tolist(), again.centres[:, 0].round(1).tolist(), strict=True))
    assert level == {0: 0.1, 2: 1.0}
    third = cluster_again(_rows([0.1, 0.95, 0.5], 4), again, 3)
    assert set(third.ids.tolist()) == {0, 2, 3}  # 1 is never given again
