"""``python -m neucmds.cli``, where the entry point is not on the path."""

import sys

from neucmds.cli import main

if __name__ == "__main__":
    sys.exit(main())
