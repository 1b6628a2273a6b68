"""`python -m sojourn.serving.http`."""

import sys

from sojourn.serving.http.service import main

if __name__ == "__main__":
    sys.exit(main())
