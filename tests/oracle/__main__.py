"""python -m tests.oracle: see docs/oracle.md."""

from tests.oracle.command import main

if __name__ == "__main__":
    raise SystemExit(main())
