"""One Prefect server for all flow tests, in a folder of its own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sojourn.flows.environment import be_quiet

be_quiet()


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[None]:
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=60):
        yield
