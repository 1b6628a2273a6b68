"""What reproduces a table or figure of the docs: `python -m studies NAME`, from the root of the repository."""
