"""The generated parts of docs/formats.md: the formats and their options from FORMATS, what is lost from
tests/accept.txt and the encoders.

    python -m tests.support.formats_docs

writes them between their marks; tests/formats/test_formats_docs.py pins the page.
"""

from lakehouse.formats import FORMATS, sends_watermarks
from tests.support.paths import ROOT

PAGE = ROOT / "docs/formats.md"
ACCEPT = ROOT / "tests/accept.txt"
ORDERS = {
    "tidb": "commit ts, then delete before upsert before DDL",
    "binlog": "binlog file, offset, row",
    "arrival": "Kafka offset, within a partition",
    "files": "table version, date, file number, row",
}
OTHERWISE = {
    "ticdc-canal-json": ({"tidb_extension": "false"}, "without the TiDB extension"),
    "ticdc-storage": ({"protocol": "csv"}, "without commit ts"),
}
FIRST = {"ticdc-storage": {"protocol": "csv", "include-commit-ts": "true"}}


def generated() -> dict[str, str]:
    """Each part's text by its mark."""
    return {"formats": formats_table(), "options": options_table(), "losses": losses_table()}


def formats_table() -> str:
    lines = ["| format | position of a change | watermark | default `consistency` |", "|---|---|---|---|"]
    for name, format_ in FORMATS.items():
        cases = [(FIRST.get(name, {}), "", format_.order)]
        if name in OTHERWISE:
            settings, words = OTHERWISE[name]
            cases.append((settings, f", {words}", "files" if name == "ticdc-storage" else "arrival"))
        for settings, words, order in cases:
            told = sends_watermarks(name, settings)
            lines.append(
                f"| `{name}`{words} | {ORDERS[order]} | {'yes' if told else 'none'} | "
                f"{'resolved' if told else 'eventual'} |"
            )
    return "\n".join(lines)


def options_table() -> str:
    lines = ["| option | formats | default | meaning |", "|---|---|---|---|"]
    found: dict[tuple[str, str, str], list[str]] = {}
    for name, format_ in FORMATS.items():
        for option, told in format_.options.items():
            choices = f": {', '.join(told.choices)}" if told.choices else ""
            found.setdefault((option, told.default, told.help + choices), []).append(name)
    for (option, default, text), names in found.items():
        shown = default.replace("\r", "\\r").replace("\n", "\\n")
        lines.append(
            f"| `{option}` | {', '.join(names)} | {f'`{shown}`' if shown else ''} | "
            f"{text.replace('|', chr(92) + '|')} |"
        )
    return "\n".join(lines)


def losses_table() -> str:
    lines = ["| recordings | what | why |", "|---|---|---|"]
    for line in ACCEPT.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pattern, what, why = line.split("\t")
            lines.append(f"| `{pattern}` | {what} | {why} |")
    return "\n".join(lines)


def page(text: str) -> str:
    """The page with its generated parts as they have to be."""
    for mark, part in generated().items():
        begin, end = f"<!-- generated: {mark} -->\n", "\n<!-- end -->"
        assert text.count(begin) == 1, f"docs/formats.md: expected one part marked {mark}"
        head, _, rest = text.partition(begin)
        text = f"{head}{begin}{part}{end}{rest.partition(end)[2]}"
    return text


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
