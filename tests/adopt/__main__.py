"""python -m tests.adopt: see docs/adopting.md."""

from tests.adopt.command import main

if __name__ == "__main__":
    raise SystemExit(main())
