"""Predictions for other programs: bounds of running requests as annotations, limits of coming jobs, their coverage."""
