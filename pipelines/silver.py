"""Decode the messages that bronze has landed into changes, DDL statements, watermarks and dead letters, each
once.
"""

from pipelines import run_layers


def main() -> None:
    """The console script `lakehouse-silver`."""
    run_layers(("silver",))


if __name__ == "__main__":
    main()
