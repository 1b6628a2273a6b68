"""What talks to a Kubernetes API server, by the official client (`sojourn[kubernetes]`).

`main` feeds the scheduler extender; `costs_main` writes costs of evictions. May import: everything else in `serving`.
"""

from sojourn.serving.kubernetes.cluster import CONNECTION_ERRORS, add_cluster_options, ask, open_cluster
from sojourn.serving.kubernetes.costs import costs_main
from sojourn.serving.kubernetes.watcher import main

__all__ = [
    "CONNECTION_ERRORS",
    "add_cluster_options",
    "ask",
    "costs_main",
    "main",
    "open_cluster",
]  # fmt: skip
