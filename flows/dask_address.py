"""What `--dask` takes: a cluster of processes here, or a scheduler's address."""

from __future__ import annotations

import re

LOCAL = re.compile(r"local(?::([1-9]\d*))?")
"""A cluster of this machine, with the number of its processes."""


def possible_dask(text: str) -> str:
    """The text, which names a cluster; ValueError else.

    >>> possible_dask("local:2"), possible_dask("tcp://10.0.0.1:8786")
    ('local:2', 'tcp://10.0.0.1:8786')
    >>> possible_dask("yes")
    Traceback (most recent call last):
    ValueError: dask must be local, local:N or the address of a scheduler such as tcp://HOST:PORT, got 'yes'
    """
    if "@" in text:  # Dask knows no users; it would log and show what stands there
        raise ValueError("dask must be the address of a scheduler without a user and a password, got "
                         f"{len(text)} characters with an @")
    if not (LOCAL.fullmatch(text) or re.fullmatch(r"[a-z]+://\S+", text)):
        raise ValueError("dask must be local, local:N or the address of a scheduler such as tcp://HOST:PORT, "
                         f"got {text!r}")
    return text
