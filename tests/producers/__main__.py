"""`python -m tests.producers PRODUCER …`: the module of the producer's name has the rest."""

import importlib
import sys

PRODUCERS = ("canal", "debezium")

if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in PRODUCERS:
        raise SystemExit(f"usage: python -m tests.producers {{{','.join(PRODUCERS)}}} …")
    sys.exit(importlib.import_module(f"tests.producers.{sys.argv[1]}").main(sys.argv[2:]))
