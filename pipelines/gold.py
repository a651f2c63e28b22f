"""Fold silver up to the watermark into the gold tables, and publish a manifest."""

from pipelines import run_layers


def main() -> None:
    """The console script `lakehouse-gold`."""
    run_layers(("gold",))


if __name__ == "__main__":
    main()
