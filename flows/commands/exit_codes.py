"""What the exit codes of commands say; 0 is all else."""

from __future__ import annotations

CLAIM_FAILED = 1
"""A preset of `sojourn compare` found that something which it checks does not hold."""
REFUSED = 2
"""Bad input, or what an outside system reports: one line on standard error says which."""
CHALLENGER = 3
"""The run is whole, and its version is not the champion: a gate did not hold."""
ALARM = 4
"""A check of logged decisions found a fresh alarm, and nothing was put in the champion's place since."""
INTERRUPTED = 130
"""Ctrl-C, as a shell shows it."""
