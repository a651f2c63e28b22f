"""What a scheduler calls: arguments → configuration → layers → their outcome on stdout. All logic is in lakehouse/.

One module per layer, and here all three in one process, which is what runs continuously. Exit codes: 0 ok, 1 failed, 2 bad
usage or configuration. `--env` is for schedulers that set no environment: what `${env:NAME}` in the YAML stands for.
"""

import argparse
import json
import os
from collections.abc import Sequence

from lakehouse.config import load, warnings
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.logs import say


def parser(program: str) -> argparse.ArgumentParser:
    """The arguments, the same for every layer."""
    made = argparse.ArgumentParser(program, allow_abbrev=False)
    made.add_argument("--configs", default="configs", help="the folder with sources/ and tables/")
    made.add_argument("--lake", help="the lake's root; default: the source's own, else ./lake")
    made.add_argument("--select", action="append", default=[], metavar="NAME", help="only this source, or db.table; may be repeated")
    made.add_argument("--env", action="append", default=[], metavar="NAME=VALUE", type=setting, help="what ${env:NAME} stands for")
    how = made.add_mutually_exclusive_group()
    how.add_argument("--once", dest="once", action="store_true", default=True, help="stop when all that is there is done (default)")
    how.add_argument("--continuous", dest="once", action="store_false", help="go on until stopped")
    return made


def setting(text: str) -> tuple[str, str]:
    """NAME=VALUE as its two parts."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError("expected NAME=VALUE")
    return name, value


def run_layers(layers: tuple[str, ...], arguments: Sequence[str] | None = None) -> None:
    """Run these layers as the arguments say (default: the command line's); SystemExit where they can't."""
    given = parser("lakehouse-" + "-".join(layers)).parse_args(arguments)
    os.environ.update(given.env)
    try:
        config = load(given.configs)
        for warning in warnings(config):
            say(f"warning: {warning}")
        from lakehouse.spark import pipeline

        # a scheduler's parameter that is left empty arrives as an empty text
        select = tuple(name for name in given.select if name)
        for outcome in pipeline.run(config, layers, given.once, select, given.lake or None, say):
            print(json.dumps(outcome), flush=True)
    except LakehouseError as error:
        say(str(error), "error")
        raise SystemExit(2 if isinstance(error, ConfigError) else 1) from None


def main() -> None:
    """All layers of each source in turn, in one process."""
    run_layers(("bronze", "silver", "gold"))
