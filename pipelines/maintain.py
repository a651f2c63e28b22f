"""Put small files together, and remove those that no manifest of the last days needs."""

import argparse
from typing import Any

from lakehouse.config import Config
from lakehouse.logs import say
from pipelines import run_task, selected


def main() -> None:
    """The console script `lakehouse-maintain`."""

    def work(given: argparse.Namespace, config: Config) -> list[dict[str, Any]]:
        from lakehouse.spark.maintain import maintain

        return maintain(config, selected(given), given.lake or None, given.retain_days, say)

    run_task("lakehouse-maintain", work, None)


if __name__ == "__main__":
    main()
