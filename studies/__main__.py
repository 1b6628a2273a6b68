"""Runs one study by its name, with its own options: `python -m studies NAME [options]`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType

STUDIES: Mapping[str, str] = MappingProxyType({
    "admission": "studies.admission",
    "planning": "studies.planning",
})
"""The module of each study; its `main` reads the options from `sys.argv`."""


def main() -> None:
    """Run the named study, or list all."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in STUDIES:
        sys.exit(f"NAME must be one of {', '.join(STUDIES)}, got {name!r}")
    sys.argv = [f"python -m studies {name}", *sys.argv[2:]]
    import_module(STUDIES[name]).main()


if __name__ == "__main__":
    main()
