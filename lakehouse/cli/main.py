"""The command line: the table of commands, the program built from it, and errors as exit codes.

Results go to stdout, progress and errors to stderr. Exit codes: 0 ok, 1 failed, 2 bad usage or configuration,
130 interrupted by Ctrl-C.
Commands import what they call inside their functions, so that --help stays fast.
"""

import logging
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from lakehouse import DISTRIBUTION
from lakehouse.cli import file_commands, operator_commands, quality_commands, run_commands, setup_commands
from lakehouse.errors import ConfigError, LakehouseError

EXIT_CODES = (
    "Exit codes: 0 ok, 1 failed, 2 bad usage or configuration, 130 interrupted by Ctrl-C. Results go to "
    "stdout, progress and errors to stderr."
)
# Every command, in the order of --help. A name of two words is a command of a group.
COMMANDS: dict[str, Callable[..., None]] = {
    "demo": setup_commands.demo,
    "try": run_commands.try_,
    "show": run_commands.show,
    "init": setup_commands.init,
    "notebooks": setup_commands.notebooks,
    "doctor": setup_commands.doctor,
    "validate": file_commands.validate,
    "plan": run_commands.plan,
    "run": run_commands.run,
    "import": run_commands.import_,
    "snapshot": run_commands.snapshot,
    "status": run_commands.status,
    "report": setup_commands.report,
    "ui": setup_commands.ui,
    "metrics": setup_commands.metrics,
    "inspect": file_commands.inspect,
    "produce": setup_commands.produce,
    "ddl": file_commands.ddl,
    "ddl approve": operator_commands.ddl_approve,
    "ddl skip": operator_commands.ddl_skip,
    "rebuild silver": operator_commands.rebuild_silver,
    "audit": operator_commands.audit,
    "verify": operator_commands.verify,
    "maintain": operator_commands.maintain,
    "floor raise": operator_commands.floor_raise,
    "fidelity": operator_commands.fidelity,
    "epoch raise": operator_commands.epoch_raise,
    "partitions retire": operator_commands.partitions_retire,
    "dead-letters list": operator_commands.dead_letters_list,
    "dead-letters requeue": operator_commands.dead_letters_requeue,
    "dead-letters dismiss": operator_commands.dead_letters_dismiss,
    "rejected list": quality_commands.rejected_list,
    "rejected requeue": quality_commands.rejected_requeue,
    "quality check": quality_commands.quality_check,
    "quality suite": quality_commands.quality_suite,
    "rebuild": operator_commands.rebuild,
    "replay": operator_commands.replay,
    "schema import": operator_commands.schema_import,
    "schema history": operator_commands.schema_history,
    "schema json": file_commands.schema_json,
    "version": file_commands.version,
}
GROUPS = {
    "schema": "The JSON Schemas of the YAML files, and the schemas of tables.",
    "epoch": "The epochs of a source.",
    "partitions": "The partitions of a source's topics.",
    "dead-letters": "Messages and rows that could not be decoded.",
    "floor": "Silver's retention floor.",
    "rebuild": "Rebuild a gold table from silver (`lakehouse rebuild DB.TABLE`), or silver from bronze.",
    "rejected": "Rows that fail an expectation and are kept out of gold.",
    "quality": "Expectations of tables, and validation with Great Expectations.",
    "ddl": "Explain DDL statements (`lakehouse ddl FILE`), and approve or skip one that stops a table.",
}
# The command that a group runs where none is named.
DEFAULT = {"ddl": "read", "rebuild": "table"}


class WithDefault(TyperGroup):
    """A group that runs its DEFAULT command where the first argument names none of its commands."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        named = bool(args) and (args[0] in self.commands or args[0] == "--help")
        return super().parse_args(ctx, args if named else [DEFAULT[str(self.name)], *args])


def build() -> typer.Typer:
    """The command line with all its commands."""
    root = typer.Typer(
        name="lakehouse",
        callback=_global_options,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        epilog=EXIT_CODES,
    )
    groups: dict[str, typer.Typer] = {}
    for name, function in COMMANDS.items():
        group, _, command = name.rpartition(" ")
        if any(other.startswith(f"{name} ") for other in COMMANDS):
            group, command = name, DEFAULT[name]
        if group and group not in groups:
            both = group in DEFAULT
            groups[group] = typer.Typer(
                cls=WithDefault if both else None,
                no_args_is_help=not both,
                rich_markup_mode=None,
                help=GROUPS[group],
            )
            root.add_typer(groups[group], name=group)
        (groups[group] if group else root).command(command)(function)
    return root


def _global_options(
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Log what is done.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Log everything, with tracebacks.")] = False,
    log_format: Annotated[
        str | None,
        typer.Option(
            "--log-format",
            metavar="text|json",
            help="How progress and errors are written. Default: $LAKEHOUSE_LOG_FORMAT, else text.",
        ),
    ] = None,
) -> None:
    """Exact Delta Lake tables from TiDB and MySQL change feeds."""
    from lakehouse.reporting import logs

    if log_format not in (None, *logs.FORMATS):
        raise ConfigError(f"--log-format {log_format}: expected text or json")
    if log_format is not None:
        os.environ[logs.VARIABLE] = log_format  # for child processes too
    logs.configure(logging.DEBUG if debug else logging.INFO if verbose else logging.WARNING)


def main() -> None:
    """The console script: an error becomes one sentence on stderr and an exit code."""
    interrupt = Interrupt()
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        build()()
    except Interrupted:
        _leave()
    except Exception as error:
        if interrupt.came:  # what is let go on the way out may fail: it was in the middle of its work
            _leave()
        sys.exit(_failed(error))
    finally:
        signal.signal(signal.SIGINT, before)


INTERRUPTED = 130


class Interrupted(BaseException):
    """Ctrl-C. No KeyboardInterrupt: typer catches that, and ends with 130 without a word."""


class Interrupt:
    """What Ctrl-C does: the first lets go what is held, locks and connections; a second one ends the process
    at once.
    """

    def __init__(self) -> None:
        self.came = False

    def __call__(self, *_: object) -> None:
        if self.came:
            os._exit(INTERRUPTED)
        self.came = True
        if "pyspark" in sys.modules:
            from lakehouse.spark.session import leave_call

            leave_call()
        raise Interrupted


def _leave() -> NoReturn:
    """End without waiting for threads, whose work is as safe as in any process that dies."""
    from lakehouse.reporting.logs import say

    say("interrupted; what is done stays, run it again to go on")
    with suppress(OSError):
        sys.stdout.flush()
    os._exit(INTERRUPTED)


# The extra that brings a module which the wheel by itself does not ask for.
_EXTRAS = {"pyspark": "spark", "delta": "spark", "pyarrow": "spark", "pandas": "spark", "grpc": "connect"}


def _is_spark_gone(error: Exception) -> bool:
    """Whether the connection to Spark's Java process broke: of brokers and databases their clients tell."""
    refused = isinstance(error, ConnectionRefusedError | ConnectionResetError) and not error.filename
    never_came = str(error).startswith("[JAVA_GATEWAY_EXITED]")  # it ended while it started
    return refused or never_came or type(error).__name__ == "Py4JNetworkError"


def _failed(error: Exception) -> int:
    from lakehouse.reporting.logs import say

    if logging.getLogger("lakehouse").isEnabledFor(logging.DEBUG):
        logging.getLogger("lakehouse").debug("failed", exc_info=error)
    if isinstance(error, LakehouseError):
        say(str(error), "error")
    elif _is_spark_gone(error):
        say(
            "Spark: expected its Java process to answer, but that has ended: by a signal to the whole group, "
            "or for want of memory (LAKEHOUSE_DRIVER_MEMORY); what is done stays, run it again to go on",
            "error",
        )
    elif isinstance(error, OSError) and error.strerror:
        say(f"{error.filename or 'input'}: {error.strerror}", "error")
    elif isinstance(error, ModuleNotFoundError) and error.name in _EXTRAS:
        advice = f"pip install '{DISTRIBUTION}[{_EXTRAS[error.name]}]'"
        say(f"{error.name}: expected it to be installed, found none; {advice}", "error")
    else:
        # Its text may quote data: only --debug shows it.
        say(f"internal error: {type(error).__name__}; `lakehouse --debug …` shows where", "error")
    return 2 if isinstance(error, ConfigError) else 1


if __name__ == "__main__":
    main()
