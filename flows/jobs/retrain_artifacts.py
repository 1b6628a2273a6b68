"""What Prefect's dashboard shows of a retrain: the gates as a list, and where the run and the bundle are."""

from __future__ import annotations

from prefect import task
from prefect.artifacts import create_link_artifact, create_markdown_artifact

from sojourn.flows.stages.promote import Promotion

GATES, RESULT, RUN = "gates", "result", "mlflow-run"
"""Keys of the artifacts."""


def gates_list(promotion: Promotion) -> str:
    """A Markdown list of the gates, which the dashboard wraps; a table's long cells it cuts off.

    >>> from sojourn.flows.gates.gate import Gate
    >>> print(gates_list(Promotion("m", 1, "champion", (Gate("size", True, "2 of 5 MB"), Gate("time", False, "9 us")))))
    - passed: **size**. 2 of 5 MB
    - **FAILED: time**. 9 us
    """
    return "\n".join(f"- passed: **{gate.name}**. {gate.found}" if gate.is_passed else
                     f"- **FAILED: {gate.name}**. {gate.found}" for gate in promotion.gates)


@task(name="artifacts", retries=2, retry_delay_seconds=2)
def publish_artifacts(promotion: Promotion, trace: str, bundle: str, where: str) -> None:
    """Artifacts of the flow run. where: the MLflow run's page, or how to find it.

    Tried again where the server does not answer: an artifact that is there twice is only a newer version of itself.
    """
    state = promotion.alias or "no longer champion or challenger"
    unchanged = "; nothing has changed since it was made" if promotion.is_unchanged else ""
    create_markdown_artifact(gates_list(promotion), key=GATES,
                             description=f"Gates of {promotion.name} version {promotion.version}")
    lines = [f"**{promotion.name}** version {promotion.version} is {state}{unchanged}.", "", f"- trace: `{trace}`",
             f"- bundle: `{bundle}`", f"- MLflow: {where}"]
    create_markdown_artifact("\n".join(lines), key=RESULT, description=f"Result of a retrain on {trace}")
    if where.startswith(("http://", "https://")):
        create_link_artifact(where, key=RUN, description="The run in MLflow: figures, tables and the bundle")
