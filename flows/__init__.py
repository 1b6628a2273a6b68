"""How a team runs it: Prefect flows, MLflow tracking, configuration, the command line.

Importing it sets the environment of the libraries that it uses, before any of them is imported.
"""

from sojourn.flows.process import be_quiet

__all__: list[str] = []

be_quiet()
