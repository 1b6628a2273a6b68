"""Constants that two parts have, since neither may import the other: what serving scores by is what was simulated."""

from __future__ import annotations

import numpy as np

from sojourn.flows.versions import promotion
from sojourn.serving.bundle import MANIFEST
from sojourn.serving.curves import CLASS_BOUNDS_S
from sojourn.serving.curves import lifetime_class as served_class
from sojourn.serving.extender.nodes import BEST_SCORE, EXTENSION_EDGES_S, node_scores
from sojourn.simulator.page.figures import CLASS_NAMES
from sojourn.simulator.policies import UPPER_S
from sojourn.simulator.policies.lava import DEADLINE_S, HIGHEST_CLASS, lifetime_class
from sojourn.simulator.policies.nilas import BUCKET_S, bucket_of

NEAR_EDGES_S = [edge + step for edge in (*EXTENSION_EDGES_S, *UPPER_S) for step in (-1, 0, 1)]


def test_a_store_knows_a_bundles_manifest_by_the_name_that_serving_reads() -> None:
    assert promotion.MANIFEST == MANIFEST


def test_nilas_has_the_same_buckets_in_the_extender_and_in_the_simulator() -> None:
    assert EXTENSION_EDGES_S == BUCKET_S
    scores = [int(node_scores(np.array([10.0]), 10.0 + extension_s)[0]) for extension_s in NEAR_EDGES_S]
    # costs 9 and 10 share the score 1
    assert scores == [max(BEST_SCORE - bucket_of(extension_s), 1) for extension_s in NEAR_EDGES_S]


def test_lifetime_classes_have_the_same_bounds_in_the_predictor_and_in_lava() -> None:
    assert UPPER_S[:-1] == CLASS_BOUNDS_S  # the highest class has no upper bound; its entry sets a deadline
    assert len(CLASS_BOUNDS_S) + 1 == HIGHEST_CLASS == len(CLASS_NAMES)
    assert [10 * deadline for deadline in DEADLINE_S] == [11 * upper for upper in UPPER_S]
    edges_s = [0, *NEAR_EDGES_S]
    assert list(map(served_class, edges_s)) == list(map(lifetime_class, edges_s))
