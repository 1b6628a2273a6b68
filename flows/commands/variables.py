"""Which environment variables are read: `SOJOURN_` with a setting's name, and a few that are no settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches

PREFIX = "SOJOURN_"
DEBUG = "SOJOURN_DEBUG"
"""Set to 1, it has tracebacks printed."""
SQL_URL = "SOJOURN_SQL_URL"
"""With what may follow: databases that the reader `sql` reads."""
_OF_A_SERVICE = re.compile(r"SOJOURN_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_\w+)?)?)")
"""What Kubernetes sets in every pod beside a Service whose name begins with `sojourn`."""


def check_variables(environment: Mapping[str, str]) -> None:
    """ValueError for a variable that begins with `SOJOURN_` and that nothing reads; it names those spelt like it.

    The value is not shown: it may be a password.

    >>> check_variables({"SOJOURN_LOAD": "0.7", "SOJOURN_SERVICE_HOST": "10.0.0.1", "HOME": "/root"})
    >>> check_variables({"SOJOURN_N_TREADS": "4"})
    Traceback (most recent call last):
    ValueError: a variable SOJOURN_... must be a setting (such as SOJOURN_N_THREADS), got SOJOURN_N_TREADS
    """
    given = sorted(name for name in environment if name.upper().startswith(PREFIX) and not _is_no_setting(name.upper()))
    if not given:
        return
    known = _settings()
    odd = [name for name in given if name.upper() not in known]
    if odd:
        from_others = _settings_of_evaluations()  # they load the simulator
        if from_others is None:
            return
        known, odd = known | from_others, [name for name in odd if name.upper() not in from_others]
    if odd:
        near = get_close_matches(odd[0].upper()[len(PREFIX):], sorted(name[len(PREFIX):] for name in known), n=1)
        hint = f" (such as {PREFIX}{near[0]})" if near else ""
        raise ValueError(f"a variable {PREFIX}... must be a setting{hint}, got {odd[0]}")


def _is_no_setting(name: str) -> bool:
    return name == DEBUG or name.startswith(SQL_URL) or _OF_A_SERVICE.fullmatch(name) is not None


def _settings() -> set[str]:
    from sojourn.flows.settings.other_jobs import MonitorConfig, TrainUsageConfig
    from sojourn.flows.settings.retrain import RetrainConfig

    return _variables(name for kind in (MonitorConfig, RetrainConfig, TrainUsageConfig) for name in kind.model_fields)


def _settings_of_evaluations() -> set[str] | None:
    """None where their libraries are not installed, as with `sojourn[pull]`: nothing can be told then."""
    try:
        from sojourn.flows.compare.compare_config import CompareConfig
        from sojourn.flows.evaluations.admit_config import AdmitConfig
    except ModuleNotFoundError:
        return None
    return _variables((*AdmitConfig.model_fields, *CompareConfig.model_fields))


def _variables(names: Iterable[str]) -> set[str]:
    return {f"{PREFIX}{name.upper()}" for name in names}
