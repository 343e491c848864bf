"""The `circlet` program, as it is installed and as `python -m circlet`."""

from __future__ import annotations

import sys

INTERRUPTED = 130


def main() -> int:
    """Runs the program on the arguments of the process; see `circlet.tools.main`. To interrupt it while it is imported
    ends it without a traceback too."""
    try:
        from circlet.tools.main import main as run
    except KeyboardInterrupt:
        return INTERRUPTED
    return run()


if __name__ == "__main__":
    sys.exit(main())
