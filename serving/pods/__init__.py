"""Pods as Kubernetes writes them: who they are, when they ran, what they ask for, what made them.

Standard library only. Training and serving share it, so that a column means the same in both. May import: none of ours.
"""

from sojourn.serving.pods.pod_attributes import NONE, POD_NAMES, POD_SIZES, controller, main_image
from sojourn.serving.pods.pod_fields import (
    FIRST_POD_S,
    field,
    finished_unix_s,
    is_finished,
    is_part_of_node,
    listed_items,
    mapping,
    node_name,
    pod_time_s,
    pod_uid,
    sequence,
    short_text,
    shown_field,
    started_unix_s,
    unix_s,
)
from sojourn.serving.pods.quantities import gpu_share, pod_gpus, pod_resource, quantity

__all__ = [
    "FIRST_POD_S", "NONE", "POD_NAMES", "POD_SIZES", "controller", "field", "finished_unix_s", "gpu_share",
    "is_finished", "is_part_of_node", "listed_items", "main_image", "mapping", "node_name", "pod_gpus",
    "pod_resource", "pod_time_s", "pod_uid", "quantity", "sequence", "short_text", "shown_field", "started_unix_s",
    "unix_s",
]  # fmt: skip
