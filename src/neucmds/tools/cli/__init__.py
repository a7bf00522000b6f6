"""The command line: it parses and prints; the library computes."""

from __future__ import annotations

import signal
import sys

__all__ = ["main"]


def main() -> int:
    """Run the command of ``sys.argv``, and return its exit code: see `Program.main`."""
    try:
        from neucmds.tools.cli.app import app
    except ModuleNotFoundError as error:
        print(
            f"neucmds: error: the command line needs {error.name}; "
            'install it with: pip install "neucmds[cli]"',
            file=sys.stderr,
        )
        return 2
    # An exception, which SystemExit is, removes half-written files; shells expect 128 + number.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    return int(app(standalone_mode=False))
