"""python -m tests.oracle: see docs/oracle.md."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from oracle.command import main

if __name__ == "__main__":
    raise SystemExit(main())
