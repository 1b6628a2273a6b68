"""What talks to a Kubernetes API server, by the official client (`sojourn[kubernetes]`).

`main` feeds the scheduler extender. May import: everything else in `serving`.
"""

from sojourn.serving.kubernetes.cluster import CONNECTION_ERRORS, add_cluster_options, ask, open_cluster

__all__ = [
    "CONNECTION_ERRORS",
    "add_cluster_options",
    "ask",
    "open_cluster",
]  # fmt: skip
