"""Commands parse their arguments and print. Only `cli` imports them."""
