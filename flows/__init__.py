"""How a team runs it: Prefect flows, MLflow tracking, configuration, the command line."""

__all__: list[str] = []
