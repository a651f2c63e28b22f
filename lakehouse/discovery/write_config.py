"""`lakehouse init`: write the YAML of a source and of each of its tables from a sample of its input.

An existing file is never overwritten; the result says that it was kept. Either everything that is written is
valid, or nothing is written.
"""

import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakehouse.config.load import problems
from lakehouse.config.yaml_reader import read_yaml
from lakehouse.discovery.config_text import InputSample, source_text, table_text
from lakehouse.discovery.input_sample import sample_recording, sample_storage, sample_topic
from lakehouse.discovery.survey import Survey, TableSample, producer_findings
from lakehouse.errors import ConfigError, EnvironmentError_
from lakehouse.formats import FORMATS
from lakehouse.reporting.text.values import listed

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class InitInput:
    """The input that `init` samples: a storage sink's folder, a recording, or a topic with its brokers and
    their Kafka options.
    """

    storage: str | None = None
    recording: Path | None = None
    topic: str | None = None
    servers: str | None = None
    kafka_options: Mapping[str, str] = field(default_factory=dict)


def init(
    folder: Path, given: InitInput, progress: Progress, *, format: str | None = None, name: str | None = None
) -> list[dict[str, str]]:
    """Write the YAMLs below `folder`. Returns each file with its state, written or kept. A ConfigError where
    the input can't be read.
    """
    if format is not None and format not in FORMATS:
        raise ConfigError(f"--format {format}: expected one of {', '.join(FORMATS)}")
    if name is not None and not re.fullmatch(r"\w[\w.-]*", name):
        raise ConfigError(
            f"--name {name}: expected letters, digits, _, - and . alone; write --name {source_name(name)}"
        )
    sample = _sample(given, format, progress)
    source = name or source_name(sample.name)
    texts = {f"sources/{source}.yml": source_text(sample)}
    for file, table, columns in table_files(sample.survey):
        file = file if is_free(folder / "tables" / file, source) else f"{source}.{file}"
        texts[f"tables/{file}"] = table_text(source, table, columns, Path(file).stem)
    check(texts)
    files = [
        {"file": str(folder / file), "state": write(folder / file, text)} for file, text in texts.items()
    ]
    _report(sample.survey, folder, source, progress)
    return files


def _sample(given: InitInput, format: str | None, progress: Progress) -> InputSample:
    if given.storage is not None:
        return sample_storage(given.storage, format)
    if given.recording is not None:
        return sample_recording(given.recording, format)
    if given.topic is not None and given.servers is not None:
        return sample_topic(given.servers, given.topic, format, given.kafka_options, progress=progress)
    raise ConfigError("init: expected --topic with --bootstrap-servers, --storage or --recording")


def _report(survey: Survey, folder: Path, source: str, progress: Progress) -> None:
    """Report harmful settings that the sample shows of the producer, and what to do next."""
    for finding in producer_findings(survey):
        level = "warning" if finding.severity == "warn" else "problem"
        progress(f"{level}: {finding.what}: {finding.text}; {finding.fix}")
    if older := survey.older_tables():
        progress(
            f"tables that may have rows from before the feed: {listed(older)} (neither a CREATE nor a "
            f"snapshot of them was seen); `lakehouse snapshot {source}` reads them once the source says "
            "`database:`, `lakehouse import` brings a dump's"
        )
    configs = "" if folder == Path("configs") else f" --configs {folder}"
    validate = "lakehouse validate" + ("" if folder == Path("configs") else f" {folder}")
    progress(
        f"next: answer the questions in {folder / 'sources' / source}.yml, then {validate}, lakehouse "
        f"plan{configs}, lakehouse run all{configs}"
    )


def source_name(text: str) -> str:
    """A source's name from an input's: characters other than letters and digits become underscores."""
    return re.sub(r"\W+", "_", text).strip("_").lower() or "source"


def table_files(survey: Survey) -> Iterator[tuple[str, tuple[str, str], TableSample]]:
    """A distinct file name for each table, with the table's name and sample, in the order of their names."""
    taken: set[str] = set()
    for name, table in sorted(survey.tables.items()):
        stem = _stem(name)
        number = 1
        while (file := f"{stem}{'' if number == 1 else f'-{number}'}.yml").casefold() in taken:
            number += 1
        taken.add(file.casefold())
        yield file, name, table


def _stem(name: tuple[str, str]) -> str:
    """The table's name as a file name that is valid in every file system."""
    plain = re.sub(r"[^\w.$-]", "_", ".".join(name)).lstrip(".")
    return plain.encode()[:200].decode(errors="ignore") or "table"


def is_free(file: Path, source: str) -> bool:
    """Whether a table's YAML of this source may have this file name: not where another source's has it."""
    try:
        existing = read_yaml(str(file), file.read_bytes()).data
    except OSError:
        return True
    return not isinstance(existing, dict) or existing.get("source", source) == source


def check(texts: Mapping[str, str]) -> None:
    """Raise ConfigError if the files to be written are not valid; a secret on the command line, for
    example.
    """
    with tempfile.TemporaryDirectory() as folder:
        for file, text in texts.items():
            path = Path(folder) / file
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        invalid = problems(folder)
    if invalid:
        raise ConfigError(
            "\n".join(f"init: {str(problem).removeprefix(folder + '/')}" for problem in invalid)
        )


def write(path: Path, text: str) -> str:
    """Write the file unless it exists. Returns the state that `init` shows."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return "kept: it was there already"
    except OSError as error:
        raise EnvironmentError_(
            f"{path}: expected a folder that can be written, got: {error.strerror}"
        ) from error
    return "written"
