"""Workload classes of one resource, learnt of what was seen so far and learnt again every day."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sojourn.models.workload_class.centres import N_CLASSES, Centres, cluster, cluster_again
from sojourn.models.workload_class.slot_maxima import SlotMaxima, covered, filled
from sojourn.models.workload_class.surplus import QUANTILE, class_surplus
from sojourn.serving.usage import CLASSES, SEEN_S, WorkloadClasses


@dataclass(frozen=True, slots=True)
class ClassModel:
    """What is served, and what the next day's clustering begins with.

    classes: of serving. clustered: centres, ids, and the class of each request it was learnt of. learnt_of: their ids.
    hours: float64 (3 * 8 * 24,), the surplus of all requests whatever their class.
    """

    classes: WorkloadClasses
    clustered: Centres
    learnt_of: np.ndarray
    hours: np.ndarray

    def by(self, rules: Sequence[str]) -> ClassModel:
        """The model whose surplus is that of the classes, or the class-free one, at each length of observation.

        rules: of SURPLUS_RULES, one for each of SEEN_S.
        """
        surplus = self.classes.surplus.reshape(len(self.classes), len(SEEN_S), -1)
        is_classes = np.array([rule == CLASSES for rule in rules])
        served = np.where(is_classes[None, :, None], surplus, self.hours.reshape(1, len(SEEN_S), -1))
        classes = replace(self.classes, surplus=served.reshape(len(self.classes), -1))
        return replace(self, classes=classes)


def fit_classes(seen: SlotMaxima, *, n_classes: int = N_CLASSES, quantile: float = QUANTILE, seed: int = 0,
                before: ClassModel | None = None) -> ClassModel | None:
    """Classes of the requests whose day was seen (nine tenths of the slots); None where there is no such request.

    before: the model of the day before; its centres are the start, and its ids go on. Only what `seen` holds is used,
    so `seen.before(column)` makes a model of the past of that column.
    """
    profiles = seen.profiles()
    is_used = covered(profiles)
    if not is_used.any():
        return None
    full = filled(profiles[is_used])
    if before is None:
        clustered = cluster(full, n_classes, seed=seed)
    else:
        clustered = cluster_again(full, before.clustered, n_classes)
    k = len(clustered.ids)
    n_members = np.bincount(clustered.labels, minlength=k)
    own_means = seen.mean_profiles()[is_used].astype(np.float64)
    own_means = np.where(np.isnan(own_means), full, own_means)
    means = np.zeros_like(clustered.centres)
    np.add.at(means, clustered.labels, own_means)
    surplus, hours = class_surplus(seen, clustered.centres, quantile)
    classes = WorkloadClasses(clustered.ids, clustered.centres, means / n_members[:, None], surplus, n_members)
    return ClassModel(classes, clustered, seen.request_ids[is_used], hours)
