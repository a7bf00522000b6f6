"""Run the command line by ``python -m neucmds``."""

import sys

from neucmds.tools.cli import main

if __name__ == "__main__":
    sys.exit(main())
