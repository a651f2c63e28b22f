"""The problems of a source as a whole, from its entry of `status` or of a run's outcome."""

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from lakehouse.reporting.text.remedies import Step, dead_letters, of_reason, rows_that_did_not_come, silent
from lakehouse.reporting.text.tables import NAMED, Problem, View
from lakehouse.reporting.text.values import counted, listed

Entry = Mapping[str, Any]


def source_problems(entry: Entry, view: View) -> Iterator[Problem]:
    """What needs somebody, worst first. A problem that a table's own reason says is left to the table."""
    where = view.where(entry["source"])
    if "broker" in entry:
        yield Problem(
            "fail",
            f"broker: {entry['broker']}",
            (Step(f"{where.program} doctor", "look at what it can reach"),),
        )
    yield from _failed_runs(entry, view)
    if not entry.get("books", "closed").startswith("closed"):
        yield Problem("fail", f"reconciliation is {entry['books']}: a bug, please report it")
    for gap in entry.get("gaps", ()):
        yield Problem("fail", gap, of_reason(gap, where))
    yield from feed_problems(entry, view)
    if entry.get("dead_letters"):
        yield Problem("warn", counted(entry["dead_letters"], "dead letter"), dead_letters(where))
    yield from _differences(entry, view)
    yield from _watermark_problems(entry, view)
    yield from _not_in_gold(entry, view)


def _failed_runs(entry: Entry, view: View) -> Iterator[Problem]:
    """The runs that failed, of layers that have not run since."""
    where = view.where(entry["source"])
    for run in entry.get("failed_runs", ()):
        layer = run["layers"][0] if len(run["layers"]) == 1 else "all"
        again = Step(where.command("run", layer, "--select", "SOURCE"), "once that is mended")
        what = f"the run of {', '.join(run['layers'])} at {run['begun']} failed: {run['outcome']}"
        yield Problem("fail", what, (again,))


def feed_problems(entry: Entry, view: View) -> Iterator[Problem]:
    """The problems that gold's manifest names, and snapshots that are not in it yet."""
    where = view.where(entry["source"])
    known = {table["why"] for table in entry.get("tables", ())}
    known |= {f"{table['table']}: {table['why']}" for table in entry.get("tables", ())}
    for problem in entry.get("problems", ()):
        if problem not in known and problem not in entry.get("gaps", ()):
            yield Problem("warn", problem, of_reason(problem, where))
    if told := entry.get("waiting_transaction"):
        yield Problem("warn", told, rows_that_did_not_come(where))
    if names := entry.get("snapshots_above", ()):
        what = f"{listed(names, NAMED)}: a snapshot of it is read, and in gold once the watermark is past it"
        rest = "wait for the feed; on a source at rest write a row, for its watermark rises with that"
        yield Problem("warn", what, (Step("", rest),))


def _differences(entry: Entry, view: View) -> Iterator[Problem]:
    """Tables that were not what the source's server has."""
    where = view.where(entry["source"])
    for table, number in entry.get("verified", {}).get("different", {}).items():
        mend = where.command("verify", "SOURCE", "--tables", shlex.quote(table), "--repair")
        step = Step(mend, "compare again, and mend what differs")
        yield Problem("fail", f"{table}: {counted(number, 'row')} differ from the source's", (step,))


def _watermark_problems(entry: Entry, view: View) -> Iterator[Problem]:
    """What keeps the watermark from rising."""
    waiting = entry.get("no_watermark_seen", ())
    if waiting:
        verb = (
            "has sent no watermark, and holds it"
            if len(waiting) == 1
            else "have sent no watermark, and hold it"
        )
        yield Problem("warn", f"{listed(waiting)} {verb}", silent(view.where(entry["source"]), waiting))
    deleted = entry.get("deleted", ())
    if deleted:
        told = f"{listed(deleted)}: the topic is read no more (it was deleted?), and holds the watermark"
        yield Problem("warn", told, silent(view.where(entry["source"]), deleted))
    again = entry.get("counts_again", ())
    if again:
        verb = "was retired, and counts" if len(again) == 1 else "were retired, and count"
        yield Problem("warn", f"{listed(again)} {verb} again: something has arrived")


def _not_in_gold(entry: Entry, view: View) -> Iterator[Problem]:
    """What silver or the topic has and gold has not."""
    where = view.where(entry["source"])
    if entry.get("not_configured"):
        names = entry["not_configured"]
        what = f"add configs/tables/{names[0]}.yml, or `tables: auto` to the source's YAML"
        yield Problem("warn", f"not in gold, since no YAML names them: {listed(names, 5)}", (Step("", what),))
    if "state" in entry:
        yield Problem("warn", entry["state"], (Step(where.command("run", "all", "--select", "SOURCE"), ""),))
    elif "last_run" in entry and (entry["watermark"] or []) > (entry["gold_watermark"] or []):
        run = where.command("run", "gold", "--select", "SOURCE")
        yield Problem("warn", "gold has not taken all that silver has", (Step(run, "publish it"),))
