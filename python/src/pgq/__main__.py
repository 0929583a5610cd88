"""``python -m pgq`` is the command line ``pgq``."""

from __future__ import annotations

import sys

from pgq.cli import main

if __name__ == "__main__":
    sys.exit(main())
