"""The Kubernetes scheduler extender: HTTP, pods, nodes and drains around a predictor.

HTTP is answered by `serving.http` (`sojourn[serve]`). May import: everything else in `serving`.
"""

from sojourn.serving.extender.extender import main

__all__ = [
    "main",
]  # fmt: skip
