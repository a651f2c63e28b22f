"""python -m tests.bundle [CASE…] [--target TARGET]: see docs/databricks.md."""

from tests.bundle.command import main

if __name__ == "__main__":
    raise SystemExit(main())
