"""Admission of jobs that must meet deadlines, on days of a trace: what `sojourn lab admit` does."""
