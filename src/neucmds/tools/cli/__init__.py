"""The command line: it parses and prints; the library computes."""

from __future__ import annotations

import importlib.util
import signal
import sys

__all__ = ["main"]


def main() -> int:
    """Run the command and return its exit code: 0 done, 2 bad input, 1 a bug, 130 interrupted."""
    missing = [
        name
        for name in ("typer", "rich")
        if importlib.util.find_spec(name) is None
    ]
    if missing:
        print(
            f"neucmds: error: the command line needs {' and '.join(missing)}; "
            'install them with: pip install "neucmds[cli]"',
            file=sys.stderr,
        )
        return 2
    # As an exception, it removes what is half written.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    from neucmds.tools.cli.app import app

    return int(app(standalone_mode=False) or 0)
