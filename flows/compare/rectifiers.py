"""Rectification by text: `RECTIFIER:MOVES` a day, as in `pdre:5`, with options after commas; or `none`."""

from __future__ import annotations

import math

from sojourn.simulator.rectification import BUDGET_MAX, RECTIFIERS, Rectify

NONE = "none"
_FORM = "RECTIFIER:MOVES[,pinned=SHARE][,by-owner][,long=HOURS][,hour=HOUR]"


def parse_rectifier(text: str, seed: int = 0) -> Rectify | None:
    """What a text means; None for `none`. seed: draws what can't be moved.

    pinned: share of the requests that can't be moved; by-owner: whole owners are drawn. long: hours from which on a
    remaining time is long. hour: of the day at which moves are planned. ValueError names what is wrong.

    >>> parse_rectifier("pdre:5,pinned=0.2").non_migratable_share
    0.2
    >>> parse_rectifier("best:5")
    Traceback (most recent call last):
    ValueError: rectify must be none or begin with one of pdre, value, got 'best:5'
    """
    if text == NONE:
        return None
    whole, *options = text.split(",")
    planner, _, moves = whole.partition(":")
    if planner not in RECTIFIERS:
        raise ValueError(f"rectify must be {NONE} or begin with one of {', '.join(RECTIFIERS)}, got {text!r}")
    default = Rectify()
    share, is_by_owner = default.non_migratable_share, default.is_by_owner
    long_s, hour = default.long_s, default.hour
    names = [option.partition("=")[0] for option in options]
    for option in options:
        name, _, value = option.partition("=")
        if names.count(name) > 1:
            raise ValueError(f"{name} must be given once, got {names.count(name)} times in {text!r}")
        if name == "pinned":
            share = _number(value, text)
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"pinned must be a share in 0..1, got {value!r} in {text!r}")
        elif option == "by-owner":
            is_by_owner = True
        elif name == "long":
            long_s = _seconds(value, text)
        elif name == "hour":
            hour = _whole(value, text)
        else:
            raise ValueError(f"rectify must be {_FORM}, got {option!r} in {text!r}")
    if not moves:
        raise ValueError(f"rectify must say how many migrations a day, as in {planner}:5, got {text!r}")
    budget = _whole(moves, text)
    if not 0 <= budget <= BUDGET_MAX:
        raise ValueError(f"rectify must have 0 to {BUDGET_MAX:,} migrations a day, got {moves!r} in {text!r}")
    return Rectify(planner, budget, hour, share, is_by_owner, long_s, seed)


def rectifier_name(text: str) -> str:
    """The text in its one form: options that say what holds anyway are left out.

    >>> rectifier_name("pdre:05,hour=0,pinned=0.4,long=12")
    'pdre:5,long=12'
    """
    found, default = parse_rectifier(text), Rectify()
    if found is None:
        return NONE
    parts = [f"{found.planner}:{found.budget}"]
    if found.non_migratable_share != default.non_migratable_share:
        parts.append(f"pinned={found.non_migratable_share:g}")
    if found.is_by_owner:
        parts.append("by-owner")
    if found.long_s != default.long_s:
        parts.append(f"long={found.long_s / 3_600:g}")
    if found.hour != default.hour:
        parts.append(f"hour={found.hour}")
    return ",".join(parts)


def _number(value: str, text: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise ValueError(f"rectify must be {_FORM}, got {value!r} for a number in {text!r}") from None


def _seconds(value: str, text: str) -> int:
    hours = _number(value, text)
    if not (math.isfinite(hours) and round(3_600 * hours) >= 1):
        raise ValueError(f"long must be a finite number of hours above 0, got {value!r} in {text!r}")
    return round(3_600 * hours)


def _whole(value: str, text: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"rectify must be {_FORM}, got {value!r} for a whole number in {text!r}") from None
