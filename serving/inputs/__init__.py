"""What a model reads of a request: its encoded columns, and the history of its owner and categories up to now.

Training and serving share it, so that a row means the same in both. May import: `errors`, `checks`, `document_fields`.
"""
