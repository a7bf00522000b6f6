"""``python -m neucmds``: the command line."""

from neucmds.cli import main

if __name__ == "__main__":
    main()
