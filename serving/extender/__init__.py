"""The Kubernetes scheduler extender: HTTP, pods, nodes and drains around a predictor.

HTTP is answered by `serving.http` (`sojourn[serve]`). May import: everything else in `serving`.
"""

from sojourn.serving.extender.calls import ExtenderCalls, start_order
from sojourn.serving.extender.choices import Choices
from sojourn.serving.extender.extender import main
from sojourn.serving.extender.nodes import Drains, PodRequests, Requests, read_sources

__all__ = [
    "Choices",
    "Drains",
    "ExtenderCalls",
    "PodRequests",
    "Requests",
    "main",
    "read_sources",
    "start_order",
]  # fmt: skip
