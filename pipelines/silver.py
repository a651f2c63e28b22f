"""Decode what bronze has landed: every distinct change, DDL, watermark and dead letter."""

from pipelines import run_layers


def main() -> None:
    """The console script `lakehouse-silver`."""
    run_layers(("silver",))


if __name__ == "__main__":
    main()
