"""What operators list, for people: dead letters, rejected rows, a table's statements, lossy columns, findings
of `doctor` and of expectations.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakehouse.reporting.text.layout import Part, grid, heading, line, state, styled
from lakehouse.reporting.text.remedies import Step, Where, dead_letters, of_reason
from lakehouse.reporting.text.tables import View, step_lines
from lakehouse.reporting.text.values import counted, listed, number, origin, place, statement

Entry = Mapping[str, Any]
# What a statement did to rows, by the name of its effect (lakehouse/ddl_effects.py).
EFFECTS = {
    "Fill": "fills a new column",
    "ImpliedFill": "fills a new column as the server does",
    "UnknownFill": "fills a new column with what no message tells",
    "Drop": "removes a column",
    "Forget": "a column's values are not known from here on",
    "Retype": "converts a column's values",
    "NullsLost": "gives NULLs what no message tells",
    "Numbered": "numbers the rows that have 0",
    "Rekey": "another key identifies rows",
    "RemoveRows": "removes the rows of partitions",
    "Clear": "removes all rows",
    "Unknowable": "changes rows in a way that no message tells",
}


def letter_parts(letters: Sequence[Entry], view: View) -> Iterator[Part]:
    """Dead letters, open and settled ones, and what settles the open ones, source by source."""
    if not letters:
        yield styled("No dead letters.", "green")
        return
    rows = [
        (
            letter["source"],
            state("open" if letter["open"] else "closed"),
            letter["code"],
            letter["table"] or "",
            origin(letter["origin"]),
            letter["message"],
        )
        for letter in letters
    ]
    yield grid(rows, ("source", "state", "code", "table", "bytes at", "why"), indent=0)
    sources = dict.fromkeys(letter["source"] for letter in letters if letter["open"])
    for source in sources:
        where = view.where(source)
        opened = [letter for letter in letters if letter["open"] and letter["source"] == source]
        yield line()
        yield line(styled(source, "bold"), f": {counted(len(opened), 'dead letter')} open")
        yield from step_lines(list(_settling(opened, where)))


def _settling(opened: Sequence[Entry], where: Where) -> Iterator[Step]:
    """What settles open dead letters of a source. There is nothing to decode again of what is lost."""
    lost = [letter for letter in opened if letter["code"] == "lost"]
    if rest := [letter for letter in opened if letter["code"] != "lost"]:
        yield from (*_inspect(rest[0], where), *dead_letters(where)[1:])
    if lost:
        yield from of_reason(lost[0]["message"], where)


def _inspect(letter: Entry, where: Where) -> tuple[Step, ...]:
    """The command that shows the events of a letter's record."""
    at = letter["origin"]
    if "offset" not in at:
        return ()
    words = ("--topic", at["topic"], "--partition", str(at["partition"]), "--offset", str(at["offset"]))
    return (Step(where.command("inspect", "--source", "SOURCE", *words), "look at the first one"),)


def rejected_parts(rows: Sequence[Entry], view: View) -> Iterator[Part]:
    """Rejected rows, and what takes them into gold. A key is in the list, for the operator asks for it."""
    if not rows:
        yield styled("No rejected rows.", "green")
        return
    cells = [
        (
            row["table"],
            row["key"],
            place(row["position"]),
            ", ".join(_texts(row["reasons"])),
            origin(row["origin"]),
        )
        for row in rows
    ]
    yield grid(cells, ("table", "key", "at", "why", "bytes at"), indent=0)
    tables = dict.fromkeys((row["source"], row["table"]) for row in rows)
    commands = [view.where(*table).command("rejected", "requeue", "TABLE") for table in tables]
    yield line()
    yield from step_lines([Step(one, "judge them again, after the suite is changed") for one in commands], 2)


def _texts(reasons: Any) -> list[str]:
    return [reasons] if isinstance(reasons, str) else [str(reason) for reason in reasons]


def history_parts(steps: Sequence[Entry]) -> Iterator[Part]:
    """A table's statements, one per line, with what each did to its rows."""
    if not steps:
        yield line("No statement of this table has arrived.")
        return
    rows = [
        (
            place(step["position"]),
            statement(step["ddl"]) or "(schema record, or inferred from rows)",
            "; ".join(_effect(effect) for effect in step["effects"]),
            str(len(step["columns"])),
        )
        for step in steps
    ]
    yield grid(rows, ("at", "statement", "effect on rows", "columns"), numbers=(3,), indent=0)


def _effect(text: str) -> str:
    name = text.partition("(")[0]
    return EFFECTS.get(name, name)


def fidelity_parts(tables: Sequence[Entry]) -> Iterator[Part]:
    """Per table the columns that can't hold every value, and those that are left out."""
    if not tables:
        yield line("No gold table yet.")
    for table in tables:
        lossy = [one for one in table["columns"] if one["null_instead_of"] or one["text_because"]]
        columns = len(table["columns"])
        exact = f"{columns - len(lossy)} of {columns} columns hold every value"
        yield line(
            styled(table["table"], "bold"),
            "  ",
            state(table["state"]),
            f"  {exact}, schema {table['schema']}",
        )
        rows = [
            (
                one["column"],
                one["source"],
                one["gold"],
                _loss(one),
                ""
                if one["companion"] is None
                else f"{one['companion']}: {counted(one['rows_in_companion'], 'row')}",
            )
            for one in lossy
        ]
        if rows:
            yield grid(rows, ("column", "source", "gold", "can't hold", "companion"))
        yield from (line("  left out: ", text) for text in table["left_out"])
        yield from (line("  note: ", text) for text in table["notes"])


def _loss(column: Entry) -> str:
    null, text = column["null_instead_of"], column["text_because"]
    return "; ".join(filter(None, (null and f"NULL for {null}", text and f"text: {text}")))


def finding_parts(findings: Sequence[Entry]) -> Iterator[Part]:
    """The findings of `doctor`, each with what to do, and how many of them need somebody."""
    rows = [(state(one["state"]), one["check"], one["about"], one["text"]) for one in findings]
    yield grid(rows, ("", "check", "about", "found"), indent=0)
    wrong = [one for one in findings if one["state"] != "ok"]
    if wrong:
        yield line()
        yield heading("what to do")
    for one in wrong:
        yield line("  ", state(one["state"]), f"  {one['about']}: {one['fix'] or one['text']}")
    yield line()
    failures = sum(one["state"] == "fail" for one in findings)
    counts = f"{counted(failures, 'failure')}, {counted(len(wrong) - failures, 'warning')}"
    yield styled(f"{counts}, {len(findings) - len(wrong)} ok", "green" if not wrong else "bold")


def check_parts(outcomes: Sequence[Entry]) -> Iterator[Part]:
    """The outcomes of expectations, and where the Data Docs are."""
    rows = [
        (
            state("ok" if one["success"] else "fail"),
            one["table"],
            one["expectation"],
            one["action"],
            "" if one["element_count"] is None else number(one["element_count"]),
            "" if one["unexpected_count"] is None else number(one["unexpected_count"]),
            one["problem"] or "",
        )
        for one in outcomes
        if "table" in one
    ]
    header = ("", "table", "expectation", "action", "rows", "unexpected", "problem")
    yield grid(rows, header, numbers=(4, 5), indent=0)
    pages = [one["page"] for one in outcomes if "page" in one]
    if pages:
        yield line()
        yield line(styled("Data Docs: ", "bold"), listed(pages))


def audit_parts(entries: Sequence[Entry]) -> Iterator[Part]:
    """What an audit found, source by source."""
    for entry in entries:
        looked = f"{counted(entry['batches'], 'batch')} and {counted(entry['tables'], 'gold table')} compared"
        yield line(styled(entry["source"], "bold"), f"  {looked}")
        yield from (line("  ", styled("fail", "red"), f"  {finding}") for finding in entry["findings"])
        if not entry["findings"]:
            yield line("  ", styled("Everything adds up.", "green"))
        yield from (line(f"  not compared: {table}") for table in entry["not_compared"])


# what `verify --repair` has done to a table
_REPAIRS = {
    "restored": "what others wrote to the gold table was taken back",
    "rebuilt": "folded again from silver",
    "rows": "the rows that differ were read again from the database: exact at the next watermark behind it",
    "snapshot": "read again from the database: exact at the next watermark behind it",
}


def verify_parts(entries: Sequence[Entry], run: str = "lakehouse run all") -> Iterator[Part]:
    """What a comparison with the source's server found, table by table, and what was done about it; `run` is
    the command that takes what was read again.
    """
    compared = [entry for entry in entries if entry["compared"]]
    for entry in compared:
        yield from _compared(entry)
    yield from (
        line("  ", styled("-", "dim"), f"  {entry['table']}  not compared: {entry['why']}")
        for entry in entries
        if not entry["compared"]
    )
    wrong = sum(1 for entry in compared if entry["different"])
    outcome = f"{counted(wrong, 'table')} with differences" if wrong else "no difference"
    unknown = sum(entry["undecided"] for entry in compared)
    outcome += f", {counted(unknown, 'row')} undecided" if unknown else ""
    asked = [entry for entry in compared if "repaired_by" in entry]
    mended = sum(1 for entry in asked if entry["not_repaired"] is None)
    outcome += f", {number(mended)} repaired" if asked else ""
    yield line(f"{counted(len(compared), 'table')} compared: {outcome}")
    if any({"rows", "snapshot"} & set(entry["repaired_by"]) for entry in asked):
        yield line(f"next: {run}")


def _compared(entry: Entry) -> Iterator[Part]:
    share = entry.get("share", 1.0)
    facts = [
        counted(entry["rows"], "row") + (f", of which {100 * share:.3g}% looked at" if share < 1 else "")
    ]
    facts += [f"{number(entry[word])} {word}" for word in ("different", "undecided") if entry[word]]
    state = "fail" if entry["different"] else "warn" if entry["undecided"] else "ok"
    colour = {"fail": "red", "warn": "yellow", "ok": "green"}[state]
    yield line("  ", styled(state, colour), f"  {entry['table']}  {', '.join(facts)}")
    for one in entry["differences"]:
        where = f" key {one['key_hash']}" if one["key_hash"] else ""
        columns = f": {listed(one['columns'])}" if one["columns"] else ""
        yield line(f"        {one['kind']}{where}{columns}")
    more = entry["different"] - len(entry["differences"])
    if more > 0:
        yield line(f"        and {number(more)} more")
    if entry["why"]:
        yield line(f"        undecided: {entry['why']}")
    if entry["columns_not_compared"]:
        yield line(f"        columns not compared: {listed(entry['columns_not_compared'])}")
    yield from (line(f"        repaired: {_REPAIRS[step]}") for step in entry.get("repaired_by", ()))
    if entry.get("not_repaired"):
        yield line(f"        not repaired: {entry['not_repaired']}")
