"""Compare gold with the databases of the sources that name one."""

import argparse
from collections.abc import Iterator
from typing import Any

from lakehouse.config.load import Config
from pipelines import run_task, selected


def main() -> None:
    """The console script `lakehouse-verify`."""

    def work(given: argparse.Namespace, config: Config) -> Iterator[dict[str, Any]]:
        from lakehouse.spark.pipeline.repair_tables import verify_sources

        return verify_sources(config, selected(given), given.lake or None, repair=given.repair)

    run_task("lakehouse-verify", work, None)


if __name__ == "__main__":
    main()
