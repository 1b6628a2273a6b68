"""`python -m sojourn.serving.kubernetes`."""

import sys

from sojourn.serving.kubernetes.watcher import main

if __name__ == "__main__":
    sys.exit(main())
