"""Entry points of scheduled jobs: read arguments and configuration, run layers, print the result on stdout.
All logic is in lakehouse/.

One module per layer, and here all three in one process, as the continuous job runs them. Exit codes: 0 ok, 1
failed, 2 bad usage or configuration. `--env` is for schedulers that set no environment: it gives the values
of `${env:NAME}` in the YAML.
"""

import argparse
import json
import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

from lakehouse.config.load import Config, load, warnings
from lakehouse.errors import ConfigError, LakehouseError
from lakehouse.reporting.heartbeat import heartbeat
from lakehouse.reporting.logs import say


def parser(program: str) -> argparse.ArgumentParser:
    """The arguments, the same for every layer."""
    made = argparse.ArgumentParser(program, allow_abbrev=False)
    made.add_argument("--configs", default="configs", help="the folder with sources/ and tables/")
    made.add_argument("--lake", help="the lake's root; default: the source's own, else ./lake")
    made.add_argument(
        "--select",
        action="append",
        default=[],
        metavar="NAME",
        help="only this source, or db.table; may be repeated",
    )
    made.add_argument(
        "--env",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        type=setting,
        help="what ${env:NAME} stands for",
    )
    made.set_defaults(once=True)
    if program == "lakehouse-quality":
        made.add_argument("--to", default="quality", help="the folder that suites and pages go to")
        return made
    if program == "lakehouse-verify":
        made.add_argument("--repair", action="store_true", help="mend the tables that differ, and no other")
        return made
    if program == "lakehouse-maintain":
        made.add_argument(
            "--retain-days", type=int, default=7, help="how long versions stay readable, at least 7"
        )
        return made
    how = made.add_mutually_exclusive_group()
    how.add_argument(
        "--once",
        dest="once",
        action="store_true",
        help="stop when all that is there is done (default)",
    )
    how.add_argument("--continuous", dest="once", action="store_false", help="go on until stopped")
    return made


def setting(text: str) -> tuple[str, str]:
    """NAME=VALUE as its two parts."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError("expected NAME=VALUE")
    return name, value


def run_layers(layers: tuple[str, ...], arguments: Sequence[str] | None = None) -> None:
    """Run these layers with the given arguments (default: the command line's); SystemExit where they are
    invalid or a layer fails.
    """

    def work(given: argparse.Namespace, config: Config) -> Iterable[dict[str, Any]]:
        from lakehouse.spark.pipeline import run as pipeline

        return pipeline.runs(
            config, layers, given.once, selected(given), lake=given.lake or None, progress=say
        )

    run_task("lakehouse-" + "-".join(layers), work, arguments)


def run_task(
    program: str,
    work: Callable[[argparse.Namespace, Config], Iterable[dict[str, Any]]],
    arguments: Sequence[str] | None,
) -> None:
    """Read the arguments and the configuration, run `work`, and print its result."""
    given = parser(program).parse_args(arguments)
    os.environ.update(given.env)
    try:
        config = load(given.configs)
        for warning in warnings(config):
            say(f"warning: {warning}")
        with heartbeat() if given.once else nullcontext():
            for outcome in work(given, config):
                print(json.dumps(outcome), flush=True)
    except LakehouseError as error:
        say(str(error), "error")
        raise SystemExit(2 if isinstance(error, ConfigError) else 1) from None


def selected(given: argparse.Namespace) -> tuple[str, ...]:
    """The names to select: an empty parameter of a scheduler arrives as an empty text."""
    return tuple(name for name in given.select if name)


def main() -> None:
    """Run all layers of each source in turn, in one process."""
    run_layers(("bronze", "silver", "gold"))
