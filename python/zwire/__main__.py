"""``python -m zwire`` is the command ``zwire``."""

import sys

from zwire.cli import main

if __name__ == "__main__":
    sys.exit(main())
