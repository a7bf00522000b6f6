"""``python -m neucmds``: the command line."""

import sys

from neucmds.cli import main

if __name__ == "__main__":
    sys.exit(main())
