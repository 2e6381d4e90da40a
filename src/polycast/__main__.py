"""`python -m polycast` is the command `polycast`."""

import sys

from polycast.cli import main

if __name__ == "__main__":
    sys.exit(main())
