"""From pods to requests, in the columns of the version that is served now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sojourn.serving.extender.pod_columns import PodColumns
from sojourn.serving.predictor import Predictor


class PodRequests:
    """Follows the predictor's reloads: another version may read other columns. For one thread at a time.

    sources: as for `PodColumns.of`, which raises ValueError where they are wrong for the first version; of a later one,
    columns that it does not read are left out.
    """

    def __init__(self, predictor: Predictor, sources: Any = None) -> None:
        self._predictor = predictor
        self._encoder = predictor.encoder
        self._columns = PodColumns.of(self._encoder, sources)
        self._sources = sources

    def request(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """The pod's request; ValueError as `PodColumns.request`."""
        encoder = self._predictor.encoder
        if encoder is not self._encoder:
            sources = self._sources
            if sources is not None:
                known = encoder.columns()
                sources = {column: source for column, source in sources.items() if column in known}
            self._columns, self._encoder = PodColumns.of(encoder, sources), encoder
        return self._columns.request(pod)
