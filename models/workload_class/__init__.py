"""Classes of services with the same shape of day, and what a class says of a newcomer.

May import: `serving.usage`, `features.usage`.
"""

from sojourn.models.workload_class.centres import Centres, cluster, cluster_again
from sojourn.models.workload_class.class_model import ClassModel, fit_classes
from sojourn.models.workload_class.newcomers import METHODS, Newcomers, judge_newcomers
from sojourn.models.workload_class.slot_maxima import SlotMaxima, slot_maxima
from sojourn.models.workload_class.surplus import class_surplus

__all__ = [
    "METHODS", "Centres", "ClassModel", "Newcomers", "SlotMaxima", "class_surplus", "cluster", "cluster_again",
    "fit_classes", "judge_newcomers", "slot_maxima",
]  # fmt: skip
