"""What mends a table that is not exact, or a source with a problem: commands, or what to do upstream.

The reason of a state is a sentence (`why`), which the modules that find it write; this table knows their
beginnings. A reason that is not in it has no remedy of its own.
"""

import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Step(NamedTuple):
    """One thing to do: a command and what it does, or ("" as command) something outside of lakehouse."""

    command: str
    what: str


class Where(NamedTuple):
    """What commands have to name: the source, the table as commands take it ("" where it is the whole
    source), the lake, or None where it is the default, and lakehouse itself.
    """

    source: str
    table: str = ""
    lake: str | None = None
    program: str = "lakehouse"

    def command(self, *words: str) -> str:
        """A command line. The names of source and table are quoted for a shell where they need it."""
        lake = f" --lake {shlex.quote(self.lake)}" if self.lake else ""
        named = {"SOURCE": shlex.quote(self.source), "TABLE": shlex.quote(self.table)}
        return " ".join([self.program, *(named.get(word, word) for word in words)]) + lake


Steps = tuple[Step, ...]
WHY = ("--why", "…")


def _skip(where: Where, what: str) -> Step:
    return Step(where.command("ddl", "skip", "TABLE", *WHY), what)


def _held(where: Where) -> Steps:
    return (
        Step(where.command("ddl", "approve", "TABLE", *WHY), "apply the statement"),
        _skip(where, "or leave it out: columns and rows stay as they are"),
    )


def _rejected_ddl(where: Where) -> Steps:
    return (
        _skip(where, "leave the statement out: columns and rows stay as they are"),
        Step("", "or change `on_ddl` in the table's YAML, and run again"),
    )


def _unread_ddl(where: Where) -> Steps:
    return (
        Step(where.command("ddl", "approve", "TABLE", "--as", "'…'", *WHY), "say what it means, in SQL"),
        _skip(where, "or leave it out: columns and rows stay as they are"),
    )


def _undeclared(where: Where) -> Steps:
    imports = where.command("schema", "import", "tables.sql", "--source", "SOURCE", "--at", "…")
    return (
        Step(imports, "supply the CREATE TABLE with these columns, from this TSO on"),
        Step("", "or set `drift_timeout` in the source's YAML: then they are inferred from the rows"),
    )


def _quality(where: Where) -> Steps:
    return (
        Step(
            where.command("rejected", "requeue", "TABLE"), "judge the rows again, after the suite is changed"
        ),
        Step(where.command("rejected", "requeue", "TABLE", "--accept", *WHY), "or let these rows pass"),
    )


def _rejected_rows(where: Where) -> Steps:
    return (
        Step(where.command("rejected", "list", "TABLE"), "list them, with their reasons"),
        *_quality(where),
    )


def _yaml(where: Where) -> Steps:
    return (
        Step(f"{where.program} validate", "then change the table's YAML"),
        Step(where.command("run", "gold", "--select", "SOURCE"), "fold it again"),
    )


def _failed(where: Where) -> Steps:
    run = where.command("--debug", "run", "gold", "--select", "SOURCE")
    return (Step(run, "try again, and show where it fails"),)


def dead_letters(where: Where) -> Steps:
    """What settles dead letters."""
    return (
        Step(
            where.command("dead-letters", "list", "--source", "SOURCE"),
            "list them, with the place of their bytes",
        ),
        Step(
            where.command("dead-letters", "requeue", "SOURCE"), "decode them again, after the cause is mended"
        ),
        Step(where.command("dead-letters", "dismiss", "SOURCE", *WHY), "or give them up"),
    )


def rows_that_did_not_come(where: Where) -> Steps:
    """What lets a watermark go on that waits for rows of a transaction."""
    return (
        Step("", "subscribe to the topics of all captured tables, where one of theirs is left out"),
        Step(where.command("epoch", "raise", "SOURCE", *WHY), "or, where they are lost, begin a new epoch"),
        Step(where.command("snapshot", "SOURCE"), "and read the tables from the source's database"),
    )


def _lost(where: Where) -> Steps:
    dismiss = where.command("dead-letters", "dismiss", "SOURCE", "--code", "lost", *WHY)
    return (
        Step(
            where.command("verify", "SOURCE", "--repair"), "compare with the database, and mend what differs"
        ),
        Step("", "or let the feed send those changes again (a snapshot of the tables)"),
        Step(dismiss, "then say so"),
    )


def _left_out(where: Where) -> Steps:
    again = where.command("run", "all", "--select", "SOURCE")
    dismiss = where.command("dead-letters", "dismiss", "SOURCE", "--code", "lost", *WHY)
    return (
        Step(again, "with a recording that has them"),
        Step(dismiss, "or say that the topic has none there: transactions and compaction leave such holes"),
    )


def _awaited(where: Where) -> Steps:
    again = where.command("run", "all", "--select", "SOURCE")
    return (
        Step(again, "with all topics of the connector, and what was left out"),
        Step("", "or behind a snapshot of all tables by the feed, which has what was lost"),
    )


def _missing_file(where: Where) -> Steps:
    dismiss = where.command("dead-letters", "dismiss", "SOURCE", "--code", "lost", *WHY)
    return (
        Step(where.command("run", "all", "--select", "SOURCE"), "after the file is back"),
        Step(dismiss, "or give it up"),
    )


def _read_again(where: Where) -> Step:
    again = where.command("snapshot", "SOURCE", "--incomplete")
    return Step(again, "read what is incomplete from the source's database")


def _epoch(where: Where) -> Steps:
    return (
        _read_again(where),
        Step("", "or let the feed send a snapshot of the table: its rows were last known before the epoch"),
    )


def _servers(where: Where) -> Steps:
    return (
        Step(where.command("epoch", "raise", "SOURCE", *WHY), "begin a new epoch"),
        Step("", "then let the feed send a snapshot of its tables"),
    )


def _silver_lost(where: Where) -> Steps:
    rebuild = where.command("rebuild", "silver", "SOURCE")
    return (
        Step(rebuild, "decode everything again, and show what would differ"),
        Step(where.command("rebuild", "silver", "SOURCE", "--yes", *WHY), "take it over"),
    )


def _bronze_lost(where: Where) -> Steps:
    dismiss = where.command("dead-letters", "dismiss", "SOURCE", "--code", "lost", *WHY)
    return (
        Step(where.command("audit", "--source", "SOURCE"), "count batch by batch"),
        Step(where.command("rebuild", "silver", "SOURCE"), "after bronze's table is restored"),
        Step(where.command("verify", "SOURCE", "--repair"), "or mend what differs from the database"),
        Step(dismiss, "and give them up"),
    )


def _fewer(where: Where) -> Steps:
    return (Step(where.command("rebuild", "TABLE", "--yes", *WHY), "fold all of its changes again"),)


def _late(where: Where) -> Steps:
    return (
        Step(where.command("run", "all", "--select", "SOURCE"), "once the feed has sent its next watermark"),
    )


def _unknowable(where: Where) -> Steps:
    return (
        Step(where.command("schema", "history", "TABLE"), "the table's statements, and what they did"),
        _read_again(where),
        Step("", "or a snapshot of the table by the feed, or a TRUNCATE and its rows again, settles it"),
    )


# The first pattern that a reason matches. A merged table's reason has the shard's name before it.
REMEDIES: tuple[tuple[str, Callable[[Where], Steps]], ...] = (
    (r"held by a DDL: on_ddl says hold", _held),
    (r"held by a DDL: on_ddl says reject", _rejected_ddl),
    (r"held by a DDL: ", _unread_ddl),
    (r"rows have columns that no DDL has added", _undeclared),
    (r"stopped by quality: ", _quality),
    (r"held by its YAML: ", _yaml),
    (r"its run failed: ", _failed),
    (r"[\d,]+ dead letters", dead_letters),
    (r"[\d,]+ rejected rows", _rejected_rows),
    (r"epoch \d+ was raised without a snapshot", _epoch),
    (r"changes came after a watermark|[^ ]+ was left out of the watermark", _late),
    (r"[\d,]+ offsets of .* were (deleted|read)", _lost),
    (r"[\d,]+ offsets of .* are in no recording", _left_out),
    (r"the watermark is held by transaction ", _awaited),
    (r"topic .* was created anew", _lost),
    (r"the storage sink lacks ", _missing_file),
    (r"the upstream's binlog (changed servers|began anew)", _servers),
    (r"silver has lost |a retention floor has ", _silver_lost),
    (r"bronze has lost |bronze: |bronze .*: ", _bronze_lost),
    (r"[\d,]+ records of .* are (missing by|not as long)", _lost),
    (r"[\d,]+ of [\d,]+ changes that silver has|Delta wrote ", _fewer),
)
_SHARD = re.compile(r"[^ ]+: ")


def of_reason(why: str, where: Where) -> Steps:
    """What mends that; () where nothing here is known to."""
    found = _found(why) or _found(_SHARD.sub("", why, count=1))
    return found(where) if found is not None else ()


def _found(why: str) -> Callable[[Where], Steps] | None:
    return next((steps for begin, steps in REMEDIES if re.match(begin, why)), None)


def of_table(table: dict[str, Any], where: Where) -> Steps:
    """What makes a table exact again. What no message tells is mended upstream alone."""
    if table["state"] in ("exact", "retired") or not table["why"]:
        return ()
    return of_reason(table["why"], where) or _unknowable(where)


def silent(where: Where, places: Sequence[str]) -> Steps:
    """What ends a watermark's wait for partitions that send none."""
    return tuple(
        Step(
            where.command("partitions", "retire", "SOURCE", *map(shlex.quote, place.rsplit("/", 1)), *WHY),
            "if nothing writes to it any more",
        )
        for place in places
        if not place.endswith("/-1")  # the source as a whole
    )
