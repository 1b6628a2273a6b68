"""A bundle's model as C source. May import: `answers` and what lies below it."""
