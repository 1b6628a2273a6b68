"""The Kubernetes scheduler extender: HTTP, pods, nodes and drains around a predictor.

Standard library only besides the predictor. May import: everything else in `serving`.
"""

from sojourn.serving.extender.extender import main

__all__ = [
    "main",
]  # fmt: skip
