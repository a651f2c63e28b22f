"""The generated parts of the pages about formats: the formats, their options and the settings of producers
that lose data from FORMATS, what is lost from tests/accept.txt and the encoders.

    python -m tests.support.formats_docs

writes them between their marks; tests/formats/test_formats_docs.py pins the pages.
"""

from collections.abc import Iterator
from pathlib import Path

from lakehouse.formats import FORMATS, sends_watermarks
from lakehouse.formats.row import Setting
from tests.support.paths import ROOT

DOCS = ROOT / "docs"
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
# The formats of each family's page.
FAMILIES = {
    "formats-ticdc.md": ("ticdc-open", "ticdc-canal-json"),
    "formats-storage.md": ("ticdc-storage",),
    "formats-debezium.md": ("debezium", "ticdc-debezium"),
    "formats-canal.md": ("canal", "canal-protobuf"),
    "formats-dts.md": ("tencent-dts",),
}
# The page of which each format has settings of its own, by another producer.
APART = ("formats-debezium.md",)
# Patterns of harmful values that are no list of words.
PATTERNS = {
    ".+": "any",
    "compact|.*compact.*": "`compact`",
    "(.*,)?\\s*[cudt]\\s*(,.*)?": "a list with `c`, `u`, `d` or `t`",
    "(?!.*(ExtractNewRecordState|RegexRouter)$).+": "any but ExtractNewRecordState and RegexRouter",
    r"(?!\.\*\\+\.\.\*$).+": "any but `.*\\..*`",
    "on|1|true": "`ON`",
    "on|1": "`ON`",
    "[1-9][0-9]*": "any but 0",
}


def generated() -> dict[Path, dict[str, str]]:
    """Each page's parts by their marks."""
    parts = {
        DOCS / "formats.md": {"formats": formats_table()},
        DOCS / "limits.md": {"losses": losses_table()},
    }
    for page, names in FAMILIES.items():
        settings = (
            {"settings": names} if page not in APART else {f"settings of {one}": (one,) for one in names}
        )
        tables = {mark: settings_table(of) for mark, of in settings.items()}
        parts[DOCS / page] = {**tables, "options": options_table(names)}
    return parts


def formats_table() -> str:
    lines = [
        "| format | page | position of a change | watermark | default `consistency` |",
        "|---|---|---|---|---|",
    ]
    links = {name: f"[{title(page)}]({page})" for page, names in FAMILIES.items() for name in names}
    for name, format_ in FORMATS.items():
        cases = [(FIRST.get(name, {}), "", format_.order)]
        if name in OTHERWISE:
            settings, words = OTHERWISE[name]
            cases.append((settings, f", {words}", "files" if name == "ticdc-storage" else "arrival"))
        for settings, words, order in cases:
            told = sends_watermarks(name, settings)
            lines.append(
                f"| `{name}`{words} | {links[name]} | {ORDERS[order]} | {'yes' if told else 'none'} | "
                f"{'resolved' if told else 'eventual'} |"
            )
    return "\n".join(lines)


def title(page: str) -> str:
    """A page's heading."""
    return (DOCS / page).read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")


def settings_table(names: tuple[str, ...]) -> str:
    """What the producers of these formats must not be set to, and what it costs."""
    lines = ["| setting of the producer | loses data where it is | because |", "|---|---|---|"]
    found: dict[tuple[str, Setting], list[str]] = {}
    for name in names:
        for setting, told in FORMATS[name].harmful_settings.items():
            found.setdefault((setting, told), []).append(name)
    rows: dict[tuple[Setting, tuple[str, ...]], list[str]] = {}
    for (setting, told), of in found.items():
        rows.setdefault((told, tuple(of)), []).append(f"`{setting}`")
    for (told, formats), settings in rows.items():
        only = "" if len(formats) == len(names) else f" ({', '.join(formats)})"
        lines.append(f"| {', '.join(settings)}{only} | {', '.join(_values(told))} | {told.cost} |")
    return "\n".join(lines)


def _values(setting: Setting) -> Iterator[str]:
    text = PATTERNS.get(setting.harmful)
    default = ", the default" if setting.default is not None else ""
    yield (text or ", ".join(f"`{word}`" for word in setting.harmful.split("|"))) + default


def options_table(names: tuple[str, ...]) -> str:
    """The options of the source's YAML that these formats have."""
    lines = ["| option | default | meaning |", "|---|---|---|"]
    found: dict[tuple[str, str, str], list[str]] = {}
    for name in names:
        for option, told in FORMATS[name].options.items():
            choices = f": {', '.join(told.choices)}" if told.choices else ""
            found.setdefault((option, told.default, told.help + choices), []).append(name)
    for (option, default, text), of in found.items():
        only = "" if len(of) == len(names) else f" ({', '.join(of)})"
        shown = default.replace("\r", "\\r").replace("\n", "\\n")
        lines.append(
            f"| `{option}`{only} | {f'`{shown}`' if shown else ''} | {text.replace('|', chr(92) + '|')} |"
        )
    return "\n".join(lines)


def losses_table() -> str:
    lines = ["| recordings | what | why |", "|---|---|---|"]
    for line in ACCEPT.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pattern, what, why = line.split("\t")
            lines.append(f"| `{pattern}` | {what} | {why} |")
    return "\n".join(lines)


def as_generated(path: Path) -> str:
    """A page with its generated parts as they have to be."""
    text = path.read_text(encoding="utf-8")
    for mark, part in generated()[path].items():
        begin, end = f"<!-- generated: {mark} -->\n", "<!-- end -->"
        head, *tail = text.split(begin)
        assert len(tail) == 1, f"{path}: expected one part marked {mark}"
        assert end in tail[0], f"{path}: expected {end} behind {mark}"
        text = f"{head}{begin}{part}\n{end}{tail[0].partition(end)[2]}"
    return text


if __name__ == "__main__":
    for path in generated():
        path.write_text(as_generated(path), encoding="utf-8")
