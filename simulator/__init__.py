"""What it is worth: engine, policies, metrics, comparison."""

__all__: list[str] = []
