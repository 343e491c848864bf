"""`python -m circlet` is the `circlet` program."""

from __future__ import annotations

import sys

from circlet.tools.main import main

if __name__ == "__main__":
    sys.exit(main())
