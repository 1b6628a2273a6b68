"""Feature rows: what a requests table must have."""

from __future__ import annotations

import pytest

from sojourn.features.creation import default_encoder, parsed_requests
from sojourn.features.synthetic import synthesize


def test_a_table_without_a_column_that_the_model_reads_is_refused_by_name() -> None:
    trace = synthesize(50, seed=5)
    encoder = default_encoder(trace)
    assert len(list(parsed_requests(trace.requests, encoder))) == len(trace.requests)
    with pytest.raises(ValueError, match="each column that the model reads, got none of mem_gib"):
        list(parsed_requests(trace.requests.drop(columns="mem_gib"), encoder))
