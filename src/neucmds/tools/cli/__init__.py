"""The command line: it parses and prints; the library computes."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]


def main() -> int:
    """Run the command and return its exit code: 0 done, 2 bad input, 1 a bug, 130 interrupted."""
    try:
        from neucmds.tools.cli.app import app
    except ModuleNotFoundError as error:
        print(
            f"neucmds: error: the command line needs {error.name}; "
            'install it with: pip install "neucmds[cli]"',
            file=sys.stderr,
        )
        return 2
    # Where the signal raises an exception, half-written files are removed.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    return int(app(standalone_mode=False) or 0)
