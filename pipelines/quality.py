"""Check the published tables with Great Expectations, and build its Data Docs."""

import argparse
from pathlib import Path
from typing import Any

from lakehouse.config.load import Config
from pipelines import run_task, selected


def main() -> None:
    """The console script `lakehouse-quality`."""

    def work(given: argparse.Namespace, config: Config) -> list[dict[str, Any]]:
        from lakehouse.spark.operations.data_docs import check_sources

        return check_sources(config, selected(given), given.lake or None, Path(given.to))

    run_task("lakehouse-quality", work, None)


if __name__ == "__main__":
    main()
