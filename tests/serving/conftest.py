"""One small trace with a bundle of each kind, made once."""

from __future__ import annotations

import pytest

from made_bundles import Made, make


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return make(tmp_path_factory.mktemp("bundles"))
