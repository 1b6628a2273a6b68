"""What MLflow's pages say of the experiment and of a registered model."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

USAGE = "usage"
"""Kind of a run, and of a version, that answers about usage and not about lifetimes."""
EXPERIMENT_TAGS = MappingProxyType({
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.note.content": "Runs of Sojourn: retrains with a child for each family, studies, comparisons, checks. The "
                           "tag `kind` tells them apart; a retrain's name begins with its verdict.",
})
RUNS_VIEW = "workflowType=machine_learning"
"""Of an experiment's address: MLflow 3.17 opens on the runs then. Else it goes by what the browser showed last, at
first an overview of traces of language models, whatever `mlflow.experimentKind` says."""


def model_page(name: str, version_tags: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Tags and description of a registered model."""
    is_usage = version_tags.get("kind") == USAGE
    answers = ("how a request uses its cores over time: pulse waves and workload classes" if is_usage else
               "how long a request (VM, pod, job) stays, at any age")
    text = (f"Tells {answers}. Made by Sojourn.\n\n"
            "- `champion`: passed every gate; this one serves.\n- `challenger`: the latest that failed one; not to be "
            "deployed.\n\nA version's description begins with its verdict and says how to load it. Figures of "
            "two versions are comparable where their tag `judged_on` is the same, which "
            f"`sojourn versions {name}` shows.")
    return {"made_by": "sojourn", "answers": "usage" if is_usage else "lifetime",
            "trace": version_tags.get("trace", "")}, text
