"""Compact small files, and remove those that no manifest of the last days needs."""

import argparse
from typing import Any

from lakehouse.config.load import Config
from lakehouse.errors import ConfigError
from lakehouse.reporting.logs import say
from pipelines import run_task, selected

LEAST_DAYS = 7


def main() -> None:
    """The console script `lakehouse-maintain`."""

    def work(given: argparse.Namespace, config: Config) -> list[dict[str, Any]]:
        from lakehouse.spark.operations.maintain import maintain_each
        from lakehouse.spark.session import get_session
        from lakehouse.spark.source import selected_sources

        if given.retain_days < LEAST_DAYS:
            raise ConfigError(
                f"--retain-days {given.retain_days}: expected at least {LEAST_DAYS}: readers and `show --at` "
                "need that long"
            )
        spark, kept = get_session(), given.retain_days * 86400
        sources = selected_sources(config, selected(given), given.lake or None)
        return maintain_each(spark, [(source.lake, source.name) for source in sources], kept, say)

    run_task("lakehouse-maintain", work, None)


if __name__ == "__main__":
    main()
