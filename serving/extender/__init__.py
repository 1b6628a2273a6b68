"""The Kubernetes scheduler extender: HTTP, pods, nodes and drains around a predictor.

HTTP is answered by uvicorn and Starlette (`sojourn[serve]`). May import: everything else in `serving`.
"""

from sojourn.serving.extender.extender import main

__all__ = [
    "main",
]  # fmt: skip
