"""Work after a decision, off the scheduler's path: a log of decisions in a folder, and a shadow's answers.

May import: `live` and what lies below it.
"""

from sojourn.serving.decisions.log_reader import (
    LOSS_WORDS,
    DecisionBlock,
    DecisionLog,
    LoggedModel,
    Loss,
    SessionLog,
    read_log,
)
from sojourn.serving.decisions.log_rows import LogSettings
from sojourn.serving.decisions.recorder import Decisions, Recorder, Shadow, ShadowDifferences

__all__ = [
    "LOSS_WORDS", "DecisionBlock", "DecisionLog", "Decisions", "LogSettings", "LoggedModel", "Loss", "Recorder",
    "SessionLog", "Shadow", "ShadowDifferences", "read_log",
]  # fmt: skip
