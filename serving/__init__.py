"""What a scheduler imports: bundle reading, encoder, owner history, predictor, lifetime curves."""

__all__: list[str] = []
