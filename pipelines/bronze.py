"""Land the messages that the sources have now, byte for byte."""

from pipelines import run_layers


def main() -> None:
    """The console script `lakehouse-bronze`."""
    run_layers(("bronze",))


if __name__ == "__main__":
    main()
