"""The YAML text that `lakehouse init` writes for a source and each of its tables, from a sample of its input.

What messages show is written as options; what they can't show is a commented question. No file is read or
written here.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakehouse.config.options import known_option
from lakehouse.discovery.survey import Survey, TableSample
from lakehouse.formats import FORMATS, sends_watermarks
from lakehouse.lineage import split_name

WIDTH = 110


@dataclass(frozen=True, slots=True)
class InputSample:
    """A sampled input. `name` is the source's, unless another is given; `place` names the input in a
    sentence, `lines` in YAML, with questions that the input leaves open; `whole`: the sample is all of it.
    """

    name: str
    place: str
    lines: list[str]
    survey: Survey
    whole: bool


def source_text(sample: InputSample) -> str:
    """The YAML of the sampled source, with a question for every option that its messages don't show."""
    survey = sample.survey
    what = (
        f"{'all' if sample.whole else 'a sample of'} {survey.messages} "
        f"{'files' if FORMATS[survey.format].reads_files else 'messages'}"
    )
    lines = [
        *_comment(
            f"Written by lakehouse init from {sample.place}: {what}, {len(survey.tables)} tables, "
            f"{survey.ddl} DDLs, {survey.watermarks} watermarks."
        ),
        "# Every option: `lakehouse schema json source`. What no message shows is asked for below.",
        f"format: {survey.format}",
        *sample.lines,
        *_option_questions(survey, sample.lines),
        *_zone_question(survey),
        *_claim_check_question(survey),
        *_upstream_question(survey),
        (
            "# auto: gold holds every table it meets, as its YAML says; configured: only those with a "
            "file in ../tables"
        ),
        "tables: auto",
        *_consistency(survey),
    ]
    return "\n".join(lines) + "\n"


def _zone_question(survey: Survey) -> Iterator[str]:
    row = FORMATS[survey.format]
    if "time_zone" not in row.options or row.tells_time_zone or "time_zone" in survey.options:
        return
    columns = survey.timestamps()
    columns_text = f" It matters for {', '.join(columns[:4])}{', …' * (len(columns) > 4)}." if columns else ""
    yield from question_lines(
        "In which zone does the producer print TIMESTAMP? No message says it; without it, UTC is "
        f"assumed.{columns_text}"
    )
    yield "# time_zone: UTC"


def _option_questions(survey: Survey, above: Sequence[str]) -> Iterator[str]:
    """The questions for options, answered in one mapping: below the options that messages show, if they show
    some.
    """
    asked = [*_server_question(survey), *_untyped_question(survey)]
    for question, _ in asked:
        yield from question_lines(question)
    if asked and "options:" not in above:
        yield "# options:"
    for _, answers in asked:
        yield from (f"#   {name}: {value}" for name, value in answers.items())


def _server_question(survey: Survey) -> Iterator[tuple[str, dict[str, str]]]:
    """The question for the kind of server, unless messages show it: then it is among the options."""
    if FORMATS[survey.format].producer.server is None and len(survey.servers) != 1:
        yield (
            "Is the server a MySQL or a MariaDB, and of which version? No message says it; without it, "
            "values are converted by MySQL's rules.",
            {"server": "mysql"},
        )


def _claim_check_question(survey: Survey) -> Iterator[str]:
    if survey.claim_checks:
        yield from question_lines(
            f"Which folder holds the claim-check files? {survey.claim_checks} messages name one; without it "
            "they are dead letters."
        )
        yield "# claim_check: /path/or/url"


def _untyped_question(survey: Survey) -> Iterator[tuple[str, dict[str, str]]]:
    """The question for the connector's modes, where no message shows a column's type."""
    row = FORMATS[survey.format]
    untyped = any(not any(table.columns.values()) for table in survey.tables.values())
    known = {"server", *survey.options}
    modes = {
        (option.spelled or (name,))[0]: option.default
        for name, option in row.options.items()
        if name not in known
    }
    if row.untyped_question and untyped and modes:
        yield row.untyped_question, modes


def _upstream_question(survey: Survey) -> Iterator[str]:
    """The question for settings that no message shows and whose defaults lose data."""
    settings = {
        name: (default, cost)
        for name, (default, harmful, cost) in FORMATS[survey.format].harmful_settings.items()
        if default is not None and re.fullmatch(harmful, default) and not known_option(survey.format, name)
    }
    if settings:
        yield from question_lines(
            "What is the producer set to here? Each of these defaults loses something, and `validate` warns "
            "of it."
        )
        yield "# upstream:"
        yield from (f"#   {name}: {default}   # {cost}" for name, (default, cost) in settings.items())


def _consistency(survey: Survey) -> Iterator[str]:
    if FORMATS[survey.format].transactions and survey.streamed and not survey.in_transactions:
        yield from _comment(
            "No row names its transaction, so that nothing tells how far the feed is complete: gold shows "
            "all that has arrived."
        )
        yield "consistency: eventual"
    expects_watermarks = (
        sends_watermarks(survey.format, survey.options) and not FORMATS[survey.format].transactions
    )
    if expects_watermarks and not survey.watermarks:
        advice = FORMATS[survey.format].producer.watermarks
        setting = f"({advice[0].upper()}{advice[1:]}.) " if advice else ""
        yield from question_lines(
            f"No watermark was seen. Does the producer send them? {setting}If it does not, write:"
        )
        yield "# consistency: eventual"


def table_text(source: str, name: tuple[str, str], table: TableSample, stem: str) -> str:
    """The YAML of a table: its source, and its name and key where file and messages don't say them."""
    lines = _comment(f"{'.'.join(name)}: {table.changes} changes seen.")
    lines += _comment(
        "Columns: " + ", ".join(f"{column} {type_}".rstrip() for column, type_ in table.columns.items())
    )
    lines.append(f"source: {scalar(source)}")
    if not _is_named(stem, name):
        lines.append(f"table: {scalar('.'.join(_quoted(part) for part in name))}")
    if table.key_names:
        lines += _comment(f"The key is in the messages: {', '.join(table.key_names)}.")
    else:
        lines += question_lines(
            "No message has a key. If the table's CREATE has none either, which columns identify a row?",
            "Without one equal rows are counted, and an update is a delete and an insert.",
        )
        lines.append(f"# key: [{', '.join(scalar(column) for column in list(table.columns)[:1])}]")
    lines += [
        "# gold:",
        f"#   target: {scalar('__'.join(name))}   # the gold table's name; this is the default",
    ]
    return "\n".join(lines) + "\n"


def _is_named(stem: str, name: tuple[str, str]) -> bool:
    try:
        return split_name(stem) == name
    except ValueError:
        return False


def _quoted(part: str) -> str:
    return "`" + part.replace("`", "``") + "`" if re.search(r"[.`]", part) else part


def scalar(text: str) -> str:
    """The text as a YAML scalar: plain where that is safe, else in double quotes."""
    plain = re.fullmatch(r"[A-Za-z0-9_./$][\w./:$,@-]*", text, re.A) and not re.search(
        r":$|[:,](\s|$)|,", text
    )
    if plain and not re.fullmatch(r"true|false|null|~|[-+.\d][\d_.eE+-]*|0[xo][0-9a-fA-F]+", text, re.I):
        return text
    chars = (
        "\\" + char if char in '"\\' else char if char.isprintable() else f"\\U{ord(char):08x}"
        for char in text
    )
    return f'"{"".join(chars)}"'


def option_text(text: str) -> str:
    """An option's value as YAML: true, false and short numbers as they are, other text as `scalar` writes
    it.
    """
    return text if re.fullmatch(r"true|false|\d{1,9}", text, re.A) else scalar(text)


def _comment(text: str) -> list[str]:
    """The text as YAML comment lines of at most WIDTH characters."""
    lines, line = [], "#"
    for word in "".join(char if char.isprintable() else " " for char in text).split():
        if len(line) + len(word) > WIDTH and line != "#":
            lines.append(line)
            line = "#"
        line += " " + word
    return [*lines, line]


def question_lines(*sentences: str) -> list[str]:
    """The sentences as YAML comment lines, the first marked as a question."""
    return [
        line
        for number, sentence in enumerate(sentences)
        for line in _comment(("QUESTION: " if number == 0 else "") + sentence)
    ]
