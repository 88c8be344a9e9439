"""`python -m neol` is the command line."""

import sys

from neol.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
