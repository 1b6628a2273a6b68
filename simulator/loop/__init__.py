"""The event loop and all that it calls, compiled by numba together with one policy; arrays in, arrays out.

The only compiled code of the simulator, and the only part that type checkers skip. Every file has a slow twin in
`tests/naive_replay.py`. May import: `cluster`, `jit`, `policies`.
"""
