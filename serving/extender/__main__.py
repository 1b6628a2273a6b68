"""`python -m sojourn.serving.extender`."""

import sys

from sojourn.serving.extender.extender import main

if __name__ == "__main__":
    sys.exit(main())
