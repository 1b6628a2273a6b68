"""A bundle as MLflow's `python_function`: from a table of requests to a table of remaining times.

MLflow imports this module by its name in the MLmodel file of every registered version, and calls
`_load_pyfunc`. So a registry holds no pickle and no code that is run. Needs pandas, which comes
with MLflow.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from sojourn.serving.bundle import Bundle, load_bundle
from sojourn.serving.errors import shown
from sojourn.serving.predictor import Predictor

if TYPE_CHECKING:
    import pandas as pd

UPTIME, NOW = "uptime_s", "now_s"
QUANTILES = (0.1, 0.5, 0.9)
HORIZONS_S = (3_600.0, 86_400.0)


class PyfuncModel:
    """Answers a table of requests from one bundle; `predict` records nothing, and equal rows have equal answers."""

    def __init__(self, bundle: Bundle) -> None:
        encoder = bundle.schema.encoder
        self._columns = encoder.columns()
        self._names = frozenset(encoder.names)
        self._now_s = int(bundle.schema.training.get("history_to_s", 0))
        self._predictor = Predictor(bundle)

    def predict(self, model_input: pd.DataFrame, params: Mapping[str, Any] | None = None) -> pd.DataFrame:
        """`Predictor.predict` for each row, to the bit.

        model_input: a request's columns, of which any may be missing; `uptime_s`, how long each has
            run; optionally `now_s`, seconds or datetimes on the bundle's clock (see
            `Predictor.admit`) at which each arrives, by default the training trace's end. None, NaN
            and NA mean a missing value. Other columns are not read.
        params: `quantiles`, shares in (0, 1), and `horizons_s`, both lists. Returns by row
        `remaining_s`, the mean; `quantiles_s`, for the shares `quantiles`; `survival`, the
        probabilities to run for `horizons_s` more; `unknown`, the missing columns, and `history of
        KEY` for an unknown history key. ValueError as in Predictor, and if `uptime_s` is missing.
        """
        import pandas as pd

        options = params or {}
        quantiles, horizons_s = (_floats(options.get(name, default), name)
                                 for name, default in (("quantiles", QUANTILES), ("horizons_s", HORIZONS_S)))
        table = pd.DataFrame(model_input)
        if UPTIME not in table:
            raise ValueError(f"{UPTIME} must be a column of the input, got {shown(list(table.columns))}")
        columns = {name: table[name].tolist() for name in (*self._columns, UPTIME, NOW) if name in table}
        rows: dict[str, list[Any]] = {"remaining_s": [], "quantiles_s": [], "survival": [], "unknown": []}
        for values in zip(*columns.values(), strict=True):
            present = {name: value for name, value in zip(columns, values, strict=True) if not _is_missing(value)}
            uptime_s, now_s = present.pop(UPTIME, None), present.pop(NOW, self._now_s)
            request = {name: _whole(value) if name in self._names else value for name, value in present.items()}
            life = self._predictor.predict(request, now_s)
            rows["remaining_s"].append(life.remaining(uptime_s))
            rows["quantiles_s"].append([life.quantile(share, uptime_s) for share in quantiles])
            rows["survival"].append([life.survival(horizon_s, uptime_s) for horizon_s in horizons_s])
            rows["unknown"].append(list(life.unknown))
        return pd.DataFrame(rows, index=table.index)


def _load_pyfunc(path: str) -> PyfuncModel:
    """The model of a bundle's folder; BundleError if its files do not match its manifest."""
    return PyfuncModel(load_bundle(path))


def _is_missing(value: Any) -> bool:
    import pandas as pd

    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def _whole(value: Any) -> Any:
    """A whole float as an int, since pandas turns integers into floats if one is missing."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _floats(values: Any, name: str) -> Sequence[float]:
    try:
        return [float(value) for value in values]
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a list of numbers, got {shown(values)}") from error
