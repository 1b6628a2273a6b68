"""Classes of services with similar days, and predictions of newcomers by class.

May import: `serving.usage`, `features.usage`.
"""

from sojourn.models.workload_class.class_model import (
    Centres,
    ClassModel,
    SlotMaxima,
    class_surplus,
    cluster,
    cluster_again,
    fit_classes,
    slot_maxima,
)
from sojourn.models.workload_class.newcomers import METHODS, Newcomers, judge_newcomers

__all__ = [
    "METHODS", "Centres", "ClassModel", "Newcomers", "SlotMaxima", "class_surplus", "cluster", "cluster_again",
    "fit_classes", "judge_newcomers", "slot_maxima",
]  # fmt: skip
