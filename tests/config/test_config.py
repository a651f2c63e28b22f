"""The configuration: every problem at once, at its place, with what to do; and no secret anywhere."""

import io
import json
import logging
import pickle
import re
import traceback
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.config import schema as config_schema
from lakehouse.config.checks import ONLY_FOR
from lakehouse.config.load import (
    Problem,
    check,
    database_settings,
    kafka_options,
    load,
    load_source,
    problems,
    resolve_source,
    warnings,
)
from lakehouse.config.models import FormatName, SourceConfig, TableConfig
from lakehouse.config.options import decoder_options, known_option
from lakehouse.config.secrets import Secrets, holds_secret, is_malformed, resolve_text
from lakehouse.config.yaml_reader import read_yaml, scalar
from lakehouse.errors import ConfigError, nearest
from lakehouse.formats import FORMATS
from lakehouse.lineage import split_name
from tests.support.paths import ROOT

GOOD = "format: ticdc-open\nrecording: a.jsonl\ntime_zone: UTC\ntables: auto\n"


def write(folder: Path, **files: str) -> Path:
    """A configuration folder; a name is `sources__shop` or `tables__shop.orders`."""
    for name, text in files.items():
        kind, _, stem = name.partition("__")
        (folder / kind).mkdir(parents=True, exist_ok=True)
        (folder / kind / f"{stem}.yml").write_text(text, encoding="utf-8")
    return folder


def found(folder: Path) -> list[str]:
    """The problems as text, with the folder's own name left out."""
    return [str(problem).replace(f"{folder}/", "") for problem in problems(folder)]


def of_source(tmp_path: Path, text: str) -> list[str]:
    return [line.removeprefix("sources/s.yml:") for line in found(write(tmp_path, sources__s=text))]


def of_table(tmp_path: Path, text: str) -> list[str]:
    return [
        line.removeprefix("tables/a.b.yml:")
        for line in found(write(tmp_path, sources__s=GOOD, **{"tables__a.b": text}))
    ]


# --- all at once


def test_every_problem_of_every_file_is_told_at_once_with_its_place_and_what_to_do(tmp_path: Path) -> None:
    write(
        tmp_path,
        sources__shop="""format: ticdc-opn
kafka:
  bootstrap_servers: "a:1"
  topic: [shop]
  options:
    security.protocol: SASL_SSL
    kafka.sasl.mechansim: PLAIN
topics: [a]
batch: {max_bytes: 12 potatoes}
time_zone: asia/shanghai
consistency:
""",
        sources__dbz="""format: debezium
recording: x.jsonl
compression: lz4
options: {time-zone: UTC}
upstream: {skipped.operation: none}
""",
        **{
            "tables__a.b": """source: shpo
gold: {mode: history, deletes: soft, targt: x}
"""
        },
    )

    assert found(tmp_path) == [
        (
            "sources/dbz.yml:3:1: compression: has no effect on debezium; remove it; it is for "
            "ticdc-open, ticdc-canal-json, ticdc-debezium"
        ),
        (
            "sources/dbz.yml:4:11: options.time-zone: is an option of the source itself; move it one "
            "level up, as `time_zone:`"
        ),
        (
            "sources/dbz.yml:5:12: upstream.skipped.operation: is no setting that matters to this "
            "format; did you mean `skipped.operations`?"
        ),
        "sources/shop.yml:1:1: format: expected one of ticdc-open, ticdc-canal-json, "
        "ticdc-debezium, ticdc-storage, canal, canal-protobuf, "
        "debezium, tencent-dts; did you mean `ticdc-open`?",
        "sources/shop.yml:2:1: kafka: names no topic; add topics or topic_pattern",
        "sources/shop.yml:4:3: kafka.topic: unknown option; did you mean `topics`?",
        (
            "sources/shop.yml:6:5: kafka.options.security.protocol: lacks the prefix of Kafka's own "
            "options; write `kafka.security.protocol`"
        ),
        (
            "sources/shop.yml:7:5: kafka.options.kafka.sasl.mechansim: is no property of a Kafka "
            "consumer; did you mean `kafka.sasl.mechanism`?"
        ),
        "sources/shop.yml:8:1: topics: unknown option; it belongs under `kafka:`",
        "sources/shop.yml:9:9: batch.max_bytes: expected a size such as 64MB or 128MiB",
        "sources/shop.yml:10:1: time_zone: is no time zone; did you mean `Asia/Shanghai`?",
        "sources/shop.yml:11:1: consistency: has no value; write one, or remove the line",
        "tables/a.b.yml:1:1: source: is no file of configs/sources; did you mean `shop`?",
        "tables/a.b.yml:2:23: gold.deletes: has no effect in mode history; remove it",
        "tables/a.b.yml:2:38: gold.targt: unknown option; did you mean `target`?",
    ]


def test_load_raises_one_error_that_holds_all_problems(tmp_path: Path) -> None:
    write(tmp_path, sources__s="format: canal\ncolour: red\n")

    with pytest.raises(ConfigError) as error:
        load(tmp_path)

    assert len(str(error.value).splitlines()) == 2


def test_a_folder_that_is_none_or_holds_no_source_is_a_problem(tmp_path: Path) -> None:
    assert [str(problem) for problem in problems("no/such")] == [
        "no/such:1:1: is no folder; name the folder that holds sources and tables, or let "
        "`lakehouse init` write it"
    ]
    assert found(tmp_path) == ["sources:1:1: holds no source; add configs/sources/<source>.yml"]


def test_a_file_that_ends_in_yaml_is_not_passed_over_in_silence(tmp_path: Path) -> None:
    write(tmp_path, sources__s=GOOD)
    (tmp_path / "sources" / "t.yaml").write_text(GOOD)

    assert found(tmp_path) == ["sources/t.yaml:1:1: is not read; name it t.yml"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "1:1: is empty; write at least its first option"),
        ("- a\n", "1:1: expected a mapping of options, got a list; write a mapping of options"),
        ("format: canal\n", "1:1: has no input; add one of kafka, recording or storage"),
        ("recording: x\n", "1:1: format: is missing; add `format:`"),
        ("format: canal\nrecording: 12\n", "2:1: recording: expected a list, got a number; write a list"),
        (
            "format: canal\nrecording: a\nname: t\n",
            "3:1: name: is not the file's name, s; remove it, or rename the file",
        ),
        (
            "format: canal\nrecording: a\nstorage: {path: b}\n",
            "3:1: storage: is a second input beside recording; a source has one: split it in two files",
        ),
        (
            "format: ticdc-storage\nrecording: a\n",
            (
                "2:1: recording: is no input of ticdc-storage, which reads a sink's files; write storage: "
                "{path: …}"
            ),
        ),
        (
            "format: canal\nrecording: a\nconsistency: resolved\n",
            (
                "3:1: consistency: resolved waits for watermarks, which this feed does not send; write "
                "consistency: eventual"
            ),
        ),
        (
            "format: ticdc-open\nrecording: a\nbatch: {max_records: 0}\n",
            "3:9: batch.max_records: input should be greater than or equal to 1",
        ),
        (
            "format: ticdc-open\nrecording: a\nbatch: {max_records: 1.5}\n",
            "3:9: batch.max_records: expected a whole number, got a number; write a whole number",
        ),
        (
            "format: ticdc-open\nrecording: a\ndrift_timeout: 15\n",
            "3:1: drift_timeout: expected a duration with its unit, such as 30s, 15m, 2h or 7d",
        ),
        (
            "format: debezium\nrecording: a\nrow_ids: sent\n",
            (
                "3:1: row_ids: has no effect on debezium; remove it; it is for ticdc-open, "
                "ticdc-canal-json, ticdc-storage"
            ),
        ),
        (
            "format: ticdc-open\nrecording: a\naccept: [replays]\n",
            (
                "3:1: accept: has no effect on ticdc-open; remove it; it is for ticdc-canal-json, "
                "ticdc-storage, canal"
            ),
        ),
        (
            "format: ticdc-open\nrecording: a\nupstream: {time_zone: UTC}\n",
            "3:12: upstream.time_zone: is an option of the decoder; move it under `options:`",
        ),
        (
            "format: ticdc-open\nrecording: a\noptions: {dispatcher: ts}\n",
            "3:11: options.dispatcher: is a setting that no decoder reads; move it under `upstream:`",
        ),
        (
            "format: ticdc-storage\nstorage: {path: a}\ndelimiter: ','\n",
            "3:1: delimiter: unknown option; it belongs under `options:`",
        ),
        (
            "format: ticdc-storage\nstorage: {path: a}\noptions: {delimiter: ','}\n",
            "3:11: options.delimiter: has no effect on canal-json files; remove it, or add protocol: csv",
        ),
        (
            "format: ticdc-storage\nstorage: {path: a}\noptions: {protocol: cvs}\n",
            "3:11: options.protocol: expected one of canal-json, csv; write one of them",
        ),
        (
            "format: canal\nrecording: a\noptions: {server: oracle}\n",
            "3:11: options.server: expected mysql or mariadb, and its version behind it where that matters, "
            "such as `mariadb 10.6`; write it so",
        ),
        (
            "format: ticdc-open\nrecording: a\noptions: {server: mariadb}\n",
            "3:11: options.server: is no option of ticdc-open; valid names: claim_check, "
            "claim_check_raw, compression, output-old-value, time_zone",
        ),
        (
            "format: ticdc-open\nrecording: a\ntime_zone: ${env:TZ}\n",
            "3:1: time_zone: can't hold a reference; write the value itself",
        ),
        (
            "format: ticdc-open\nrecording: '{{secrets/a/b}}'\n",
            "2:1: recording: can't hold a secret; use ${env:NAME} here; secrets are for kafka.options and "
            "database.password",
        ),
        (
            "format: ticdc-open\nrecording: ${HOME}/a\n",
            (
                "2:1: recording: holds a reference of no known form; write ${env:NAME}, "
                "{{secrets/scope/key}} or ${secret:scope/key}"
            ),
        ),
    ],
)
def test_a_source_says_what_is_wrong_in_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in of_source(tmp_path, text)


@pytest.mark.parametrize("protocol", ["canal-json", "csv"])
def test_virtual_columns_may_be_named_in_both_protocols(tmp_path: Path, protocol: str) -> None:
    options = f"{{protocol: {protocol}, enable-tidb-extension: true, virtual-columns: d.t.c}}"

    found = of_source(tmp_path, f"format: ticdc-storage\nstorage: {{path: a}}\noptions: {options}\n")

    assert "virtual-columns" not in "".join(found)


@pytest.mark.parametrize(
    ("kafka", "problem"),
    [
        (
            "topics: [a], topic_pattern: b",
            "kafka.topic_pattern: says again what topics says; keep one of the two",
        ),
        (
            "topic_pattern: 'a['",
            (
                "kafka.topic_pattern: is no regular expression; write one that matches whole topic names, "
                "such as shop\\..*"
            ),
        ),
        (
            "topics: [a], default_topic: b",
            (
                "kafka.default_topic: is not among the topics that are read; add it to topics: its "
                "watermark counts"
            ),
        ),
        (
            "topics: [orders], starting: {order: {0: 1}}",
            "kafka.starting.order: is not among the topics that are read; did you mean `orders`?",
        ),
        (
            "topics: [a], starting: timestamp:2026-11-21T09:00:00",
            (
                "kafka.starting: expected earliest, latest, timestamp:2026-11-21T09:00:00Z, or offsets "
                "such as {orders: {0: 1500}}"
            ),
        ),
        (
            "topics: [a], starting: {a: {0: -5}}",
            "kafka.starting: expected partition numbers with offsets, -2 for earliest and -1 for latest",
        ),
        ("topics: [12]", "kafka.topics[0]: expected text, got a number; put it in quotes"),
        (
            "topics: [a], options: {kafka.group.id: x}",
            "kafka.options.kafka.group.id: is set by the reader; remove it: each query has its own group",
        ),
        ("topics: [a], format: canal", "kafka.format: unknown option; it belongs to the first level"),
    ],
)
def test_a_kafka_input_says_what_is_wrong_in_one_sentence(tmp_path: Path, kafka: str, problem: str) -> None:
    lines = of_source(tmp_path, f"format: ticdc-open\nkafka: {{bootstrap_servers: b, {kafka}}}\n")

    assert problem in [line.partition(": ")[2] for line in lines]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "table: x\nsource: s\n",
            (
                "1:1: table: expected db.table, with names that contain a dot in backquotes; write `table: "
                "db.table`, or name the file db.table.yml"
            ),
        ),
        (
            "source: s\ntable: a.b\ntables: [c.d]\n",
            "3:1: tables: says again what table says; keep one of the two",
        ),
        (
            "source: s\nquality: [{expect: not_null}]\n",
            "2:12: quality[0].expect: string should match pattern '^expect_[a-z0-9_]+$'",
        ),
        (
            "source: s\nquality: [{expect: expect_column_values_to_not_be_nul, column: a}]\n",
            (
                "2:12: quality[0].expect: is no expectation that lakehouse checks; did you mean "
                "`expect_column_values_to_not_be_null`?"
            ),
        ),
        (
            "source: s\nquality: [{expect: expect_column_values_to_not_be_null}]\n",
            "2:11: quality[0]: names no column; add column",
        ),
        (
            "source: s\nquality: [{expect: expect_column_values_to_be_in_set, column: a}]\n",
            "2:11: quality[0]: lacks the argument value_set; add args: {value_set: …}",
        ),
        (
            (
                "source: s\nquality: [{expect: expect_column_values_to_be_between, column: a, args: "
                "{minvalue: 0}}]\n"
            ),
            (
                "2:74: quality[0].args.minvalue: is no argument of expect_column_values_to_be_between; did "
                "you mean `min_value`?"
            ),
        ),
        (
            (
                "source: s\nquality: [{expect: expect_column_values_to_be_between, column: a, args: "
                "{strict_min: true}}]\n"
            ),
            "2:11: quality[0]: lacks min_value or max_value; add args: {min_value: …}",
        ),
        (
            "source: s\nquality: [{expect: expect_column_values_to_be_unique, column: a, action: reject}]\n",
            (
                "2:66: quality[0].action: can't be reject: expect_column_values_to_be_unique is about the "
                "whole table, not about a row; write action: warn"
            ),
        ),
        (
            (
                "source: s\nquality: [{expect: expect_column_values_to_not_be_null, column: a, args: "
                "{mostly: 0.9}}]\n"
            ),
            "2:75: quality[0].args.mostly: has no effect: every row is judged by itself; remove it",
        ),
        (
            (
                "source: s\nquality: [{expect: expect_column_values_to_be_in_set, column: a, args: "
                "{value_set: [1, null]}}]\n"
            ),
            "2:73: quality[0].args.value_set: holds null, which is never looked at; remove it",
        ),
        (
            (
                "source: s\nquality: [{expect: expect_column_values_to_match_regex, column: a, args: "
                "{regex: '('}}]\n"
            ),
            "2:75: quality[0].args.regex: is no regular expression; write one",
        ),
        (
            (
                "source: s\nquality: [{expect: expect_column_pair_values_to_be_equal, column: a, args: "
                "{column_A: a, column_B: b}}]\n"
            ),
            (
                "2:59: quality[0].column: has no effect: the expectation is not about one column; write "
                "args: {column_A: …, column_B: …}"
            ),
        ),
        (
            (
                "source: s\nquality: [{expect: expect_column_values_to_be_null, column: a, args: "
                "{row_condition: 'x > now()', condition_parser: spark}}]\n"
            ),
            (
                "2:71: quality[0].args.row_condition: is not the same at every reading; use the row's own "
                "columns only"
            ),
        ),
        (
            (
                "source: s\nquality: [{expect: expect_column_values_to_be_null, column: a}, {expect: "
                "expect_column_values_to_be_null, column: a, action: stop}]\n"
            ),
            "2:65: quality[1]: says again what an earlier expectation says; keep one of the two",
        ),
        (
            "source: s\ncolumns: {a: {exclude: true, rename: b}}\n",
            "2:30: columns.a.rename: has no effect beside exclude; keep one of the two",
        ),
        (
            "source: s\non_ddl: {add_column: evolv}\n",
            "2:10: on_ddl.add_column: expected one of evolve, ignore, hold, reject; did you mean `evolve`?",
        ),
        (
            "source: s\non_ddl: {drop_primary_key: ignore}\n",
            (
                "2:10: on_ddl.drop_primary_key: can't be ignored: rows of another key could not be "
                "matched; write evolve, hold or reject"
            ),
        ),
        (
            "source: s\non_ddl: {drop_colum: hold}\n",
            "2:10: on_ddl.drop_colum: unknown option; did you mean `drop_column`?",
        ),
        (
            "source: s\ngold: {cluster_by: [a], partition_by: [b]}\n",
            "2:25: gold.partition_by: excludes cluster_by; keep one of the two",
        ),
        (
            "source: s\ntables: [d.a, d.b]\ngold: {primary_key: true}\n",
            "3:8: gold.primary_key: can't be promised of several tables that become one; remove it",
        ),
        (
            "source: s\ngold: {mode: append, primary_key: true}\n",
            "2:22: gold.primary_key: has no effect in mode append, where a key has many rows; remove it",
        ),
        (
            "source: s\ngold: {target: '${env:T}'}\n",
            "2:8: gold.target: can't hold a reference; write the value itself",
        ),
        (
            "source: s\ncolumns: {a: {computed: 'count(b)'}}\n",
            (
                "2:15: columns.a.computed: is not about one row; use the row's own columns, without "
                "aggregates, windows and generators"
            ),
        ),
        (
            "source: s\ncolumns: {a: {computed: 'now()'}}\n",
            (
                "2:15: columns.a.computed: is another value at another time; use the row's own columns "
                "only: gold can be built anew at any time"
            ),
        ),
        (
            "source: s\ncolumns: {a: {computed: 'b in (select 1)'}}\n",
            "2:15: columns.a.computed: reads another table; use the row's own columns only",
        ),
        (
            "source: s\ncolumns: {a: {computed: 'b +'}}\n",
            "2:15: columns.a.computed: is no SQL expression; write one of Spark SQL, such as lower(email)",
        ),
        (
            "source: s\ncolumns: {a: {rename: c}, b: {rename: C}}\n",
            "2:31: columns.b.rename: is another column's new name too; give each its own",
        ),
        (
            "source: s\ncolumns: {a: {rename: _raw_b}}\n",
            "2:15: columns.a.rename: begins as companions do; choose a name that does not begin with _raw_",
        ),
        (
            "source: s\ncolumns: {a: {type: variant}}\n",
            "2:15: columns.a.type: expected one of boolean, string, microseconds, decimal, array; "
            "write one of the words",
        ),
        ("source: s\naccept: [replays]\n", "2:1: accept: has no effect in mode upsert; remove it"),
        (
            "source: s\ngold: soft\n",
            "2:1: gold: expected a mapping of options, got text; write a mapping of options",
        ),
    ],
)
def test_a_table_says_what_is_wrong_in_one_sentence(tmp_path: Path, text: str, problem: str) -> None:
    assert problem in of_table(tmp_path, text)


@pytest.mark.parametrize(
    ("source", "table", "problem"),
    [
        (
            "format: canal\n",
            "gold: {mode: append}\n",
            "append on a feed in arrival order counts a replay twice; write accept: [replays] to build it so",
        ),
        ("format: canal\n", "gold: {mode: append}\naccept: [replays]\n", None),
        ("format: canal\naccept: [replays]\n", "gold: {mode: history}\n", None),
        (
            "format: ticdc-storage\n",
            "gold: {mode: history}\n",
            (
                "history needs commit times, which these files do not tell; set include-commit-ts, at the "
                "sink and here"
            ),
        ),
        ("format: ticdc-open\n", "gold: {mode: history}\n", None),
    ],
)
def test_a_mode_that_its_feed_can_not_serve_is_a_problem(
    tmp_path: Path, source: str, table: str, problem: str | None
) -> None:
    place = "storage: {path: x}\n" if "storage" in source else "recording: r.jsonl\n"
    write(tmp_path, sources__s=source + place, **{"tables__a.b": "source: s\n" + table})

    told = [line for line in found(tmp_path) if "gold.mode" in line]

    assert [line.partition("gold.mode: ")[2] for line in told] == ([] if problem is None else [problem])


def test_two_files_can_not_claim_one_table_or_one_target(tmp_path: Path) -> None:
    write(
        tmp_path,
        sources__s=GOOD,
        **{
            "tables__a.b": "source: s\ngold: {target: T}\n",
            "tables__c.d": "source: s\ntable: a.b\n",
            "tables__e.f": "source: s\ngold: {target: t}\n",
        },
    )

    assert [line.replace(str(tmp_path), "") for line in found(tmp_path)] == [
        "tables/c.d.yml:2:1: table: is claimed by tables/a.b.yml too; keep one of the two",
        "tables/e.f.yml:2:8: gold.target: is claimed by tables/a.b.yml too; keep one of the two",
    ]


@pytest.mark.parametrize(
    ("other", "refused"),
    [("shop_schema", True), ("shop_attachments", True), ("SHOP", True), ("shop_changes", False)],
)
def test_two_sources_can_not_have_one_table(tmp_path: Path, other: str, refused: bool) -> None:
    write(tmp_path, sources__shop=GOOD, **{f"sources__{other}": GOOD})
    elsewhere = tmp_path / "elsewhere"
    write(elsewhere, sources__shop=GOOD, **{f"sources__{other}": GOOD + "lake: /lake\n"})

    told = [line.replace(str(tmp_path), "") for line in found(tmp_path)]

    assert len(told) == refused
    assert not told or "is the name of tables of" in told[0]
    assert found(elsewhere) == []


# --- what comes of a good one


def test_a_good_configuration_gives_models_with_their_defaults(tmp_path: Path) -> None:
    write(
        tmp_path,
        sources__s=GOOD + "batch: {max_bytes: 64 MB}\nlake: /lake\n",
        **{
            "tables__shop.orders": "source: s\n",
            "tables__odd": "source: s\ntable: '`a.b`.`c``d`'\nkey: [id]\n",
        },
    )

    config = load(tmp_path)

    source = config.sources["s"]
    assert (source.name, source.consistency, source.batch.max_bytes) == (
        "s",
        "resolved",
        64_000_000,
    )
    assert source.lake is not None and (source.lake.path, source.lake.gold) == ("/lake", "gold")
    assert config.tables["shop.orders"].source_tables == (("shop", "orders"),)
    assert config.tables["odd"].source_tables == (("a.b", "c`d"),)
    assert check(tmp_path) == ([], [])


@pytest.mark.parametrize(
    ("format", "more", "consistency"),
    [
        ("ticdc-open", "recording: a", "resolved"),
        ("canal", "recording: a", "eventual"),
        ("ticdc-canal-json", "recording: a\noptions: {enable-tidb-extension: false}", "eventual"),
        ("ticdc-storage", "storage: {path: a}", "eventual"),
        ("ticdc-storage", "storage: {path: a}\noptions: {enable-tidb-extension: true}", "resolved"),
        ("ticdc-storage", "storage: {path: a}\noptions: {protocol: csv}", "eventual"),
        (
            "ticdc-storage",
            "storage: {path: a}\noptions: {protocol: csv, csv.include-commit-ts: true}",
            "resolved",
        ),
    ],
)
def test_consistency_is_resolved_exactly_where_watermarks_come(
    tmp_path: Path, format: str, more: str, consistency: str
) -> None:
    write(tmp_path, sources__s=f"format: {format}\n{more}\n")

    assert load(tmp_path).sources["s"].consistency == consistency


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("", "true"),
        ("options: {tidb_extension: auto}", "true"),
        ("options: {enable-tidb-extension: false}", "false"),
        ("consistency: eventual", None),
    ],
)
def test_a_feed_that_waits_for_watermarks_has_the_extension(
    tmp_path: Path, more: str, told: str | None
) -> None:
    write(tmp_path, sources__s=f"format: ticdc-canal-json\nrecording: a\n{more}\n")

    assert load(tmp_path).sources["s"].decoder_options().get("tidb_extension") == told


def test_decoder_options_have_the_decoders_names_however_they_were_spelled(tmp_path: Path) -> None:
    text = (
        "format: ticdc-storage\nstorage: {path: a}\ntime_zone: UTC\noptions: {protocol: csv, "
        "csv.include-commit-ts: true, output-field-header: false}\n"
    )
    write(tmp_path, sources__s=text)

    assert load(tmp_path).sources["s"].decoder_options() == {
        "protocol": "csv",
        "include-commit-ts": "true",
        "output-field-header": "false",
        "time_zone": "UTC",
    }
    with pytest.raises(
        ConfigError, match=r"option delimeter: is no option of ticdc-storage; did you mean `delimiter`\?"
    ):
        decoder_options("ticdc-storage", {"delimeter": ","})
    with pytest.raises(ConfigError, match=r"--format: canl is no format; did you mean `canal`\?"):
        decoder_options("canl", {})


def test_the_word_lists_of_config_and_formats_agree() -> None:
    assert set(get_args(FormatName)) == set(FORMATS)
    assert {format for formats in ONLY_FOR.values() for format in formats} <= set(FORMATS)


@pytest.mark.parametrize("text", ["a", "a.b.c", ".a", "a.", "`a.b", "a.`b", "``.a", ""])
def test_a_name_that_is_not_two_names_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"expected db\.table"):
        split_name(text)


@given(st.text("ab.`", min_size=1, max_size=6), st.text("ab.`", min_size=1, max_size=6))
def test_quoted_names_come_back(database: str, table: str) -> None:
    quoted = ".".join("`" + name.replace("`", "``") + "`" for name in (database, table))

    assert split_name(quoted) == (database, table)


# --- warnings


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        (
            "format: canal\nrecording: a\ntables: auto\n",
            (
                "1:1: time_zone: is not said, and TIMESTAMP comes in the producer's zone: it is read as "
                "UTC; write time_zone: UTC, or the zone"
            ),
        ),
        (
            GOOD.replace("auto", "configured"),
            "4:1: tables: no table has a YAML: gold stays empty; write tables: auto, or add configs/tables",
        ),
        (
            GOOD + "upstream: {dispatcher: ts}\n",
            "5:12: upstream.dispatcher: the rows of one key spread over all partitions, whose order "
            "then means nothing; "
            "change it at the producer, and say so under `upstream:`",
        ),
        (
            "format: debezium\nrecording: a\ntables: auto\nupstream: {gtid.source.includes: a.*}\n",
            "4:12: upstream.gtid.source.includes: rows are left out that other servers wrote first; "
            "change it at the producer, and say so under `upstream:`",
        ),
        (
            "format: debezium\nrecording: a\ntables: auto\nupstream: {database.include.list: d}\n",
            "4:12: upstream.database.include.list: tables of databases that it leaves out are taken for "
            "empty ones, for their statements come, but with "
            "schema.history.internal.store.only.captured.databases.ddl=true; change it at the producer, and "
            "say so under `upstream:`",
        ),
        (
            "format: debezium\nrecording: a\ntables: auto\nupstream: {column.truncate.to.20.chars: d.t.v}\n",
            "4:1: upstream.column.truncate.to.N.chars: longer text is cut; "
            "change it at the producer, and say so under `upstream:`",
        ),
        (
            "format: debezium\nrecording: a\ntables: auto\nupstream: {column.mask.hash.a.with.salt.b: c}\n",
            "4:1: upstream.column.mask.hash: values are asterisks or hashes; "
            "change it at the producer, and say so under `upstream:`",
        ),
        (
            "format: debezium\nrecording: a\ntables: auto\n",
            (
                "1:1: upstream.skipped.operations: is not said, and by default t: changes of that kind (t: "
                "truncates) never arrive; change it at the producer, and say so under `upstream:`"
            ),
        ),
        (
            "format: canal\nrecording: a\ntime_zone: UTC\ntables: auto\n"
            "upstream: {canal.instance.tsdb.enable: false}\n",
            (
                "5:12: upstream.canal.instance.tsdb.enable: a Canal that lags behind an ALTER sends earlier "
                "rows under the columns of after it; change it at the producer, and say so under `upstream:`"
            ),
        ),
        (
            "format: canal\nrecording: a\ntime_zone: UTC\ntables: auto\n"
            "upstream: {canal.instance.filter.regex: 'shop\\..*'}\n",
            (
                "5:12: upstream.canal.instance.filter.regex: a table that a RENAME takes out of it goes on "
                "without its changes; change it at the producer, and say so under `upstream:`"
            ),
        ),
        (
            "format: canal\nrecording: a\ntime_zone: UTC\ntables: auto\n"
            "upstream: {binlog_transaction_compression: 'ON'}\n",
            "5:12: upstream.binlog_transaction_compression: Canal before 1.1.7 sends none of its "
            "transactions; change it at the producer, and say so under `upstream:`",
        ),
        (
            "format: debezium\nrecording: a\ntables: auto\nupstream: {driver.connectionTimeZone: UTC}\n",
            "4:12: upstream.driver.connectionTimeZone: where it is not the server's zone, a snapshot's "
            "TIMESTAMPs are other times; change it at the producer, and say so under `upstream:`",
        ),
        (
            "format: debezium\nrecording: a\ntables: auto\nupstream: {snapshot.fetch.size: 2000}\n",
            "4:12: upstream.snapshot.fetch.size: (MySQL's connector) a TIME loses its sign and its fraction "
            "in a snapshot, and 00:00:00 is NULL; change it at the producer, and say so under `upstream:`",
        ),
        (
            "format: debezium\nrecording: a\ntables: auto\nupstream: {delete.handling.mode: drop}\n",
            "4:12: upstream.delete.handling.mode: before 2.5, where drop is the default: deletes of "
            "unwrapped rows are not sent, or by `add.headers` alone; change it at the producer, and say so "
            "under `upstream:`",
        ),
        (
            "format: debezium\nrecording: a\ntables: auto\nupstream: {skipped.operations: 'd, u'}\n",
            (
                "4:12: upstream.skipped.operations: changes of that kind (t: truncates) never arrive; "
                "change it at the producer, and say so under `upstream:`"
            ),
        ),
        (
            "format: debezium\nrecording: a\ntables: auto\n"
            "upstream: {transforms.a.type: org.apache.kafka.connect.transforms.RegexRouter, "
            "transforms.b.type: io.debezium.transforms.TimezoneConverter}\n",
            (
                "4:1: upstream.transforms.NAME.type: a transform may change values: ByLogicalTableRouter "
                "sends a column's default for NULL, TimezoneConverter a DATETIME of another zone; "
                "change it at the producer, and say so under `upstream:`"
            ),
        ),
        (
            (
                "format: ticdc-storage\nstorage: {path: a}\noptions: {protocol: csv}\ntime_zone: "
                "UTC\ntables: auto\n"
            ),
            (
                "3:1: options.include-commit-ts: is not true: rows have no commit time, and files no "
                "watermark; set it at the changefeed and here"
            ),
        ),
        (
            (
                "format: ticdc-storage\nstorage: {path: a}\noptions: {enable-partition-separator: false}\n"
                "time_zone: UTC\ntables: auto\n"
            ),
            (
                "3:11: options.enable-partition-separator: the classic architecture, and the new one before "
                "8.5.6, write files of several partitions over each other; change it at the producer, and "
                "say so under `options:`"
            ),
        ),
        (
            "format: ticdc-canal-json\nrecording: a\ntime_zone: UTC\ntables: auto\nconsistency: eventual\n",
            "1:1: options.enable-tidb-extension: is not said: where messages lack it, replays and "
            "changes over several partitions are not "
            "told apart; write true or false, as the changefeed has it",
        ),
        (
            "format: ticdc-debezium\nrecording: a\ntables: auto\n",
            (
                "1:1: format: loses DECIMAL digits, and sends the default in place of NULL; use ticdc-open "
                "where those matter"
            ),
        ),
    ],
)
def test_what_costs_fidelity_is_a_warning_and_no_error(tmp_path: Path, text: str, warning: str) -> None:
    write(tmp_path, sources__s=text)

    assert warning in [
        str(found).replace(f"{tmp_path}/sources/s.yml:", "") for found in warnings(load(tmp_path))
    ]


def test_a_debezium_source_that_says_harmless_settings_is_not_warned(tmp_path: Path) -> None:
    example = ROOT / "configs/examples/debezium.yml"
    write(tmp_path, sources__debezium=example.read_text(encoding="utf-8"))

    assert check(tmp_path) == ([], [])


@pytest.mark.parametrize("consistency", ["resolved", "eventual"])
def test_one_place_for_a_transaction_s_rows_is_no_harm_where_their_numbers_order_them(
    tmp_path: Path, consistency: str
) -> None:
    """It is what `init` writes at a MariaDB 11.4. Without watermarks there may be no numbers."""
    settings = "{skipped.operations: none, bigint.unsigned.handling.mode: precise, "
    settings += "replace.null.with.default: false}"
    options = "{server: mariadb, binlog_transaction_compression: true}"
    text = f"format: debezium\nrecording: a\ntables: auto\noptions: {options}\nupstream: {settings}\n"
    write(tmp_path, sources__s=f"{text}consistency: {consistency}\n")

    found = [one.path for one in warnings(load(tmp_path))]

    assert found == ["options.binlog_transaction_compression"] * (consistency == "eventual")


# --- YAML


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("off", "off"),
        ("y", "y"),
        ("12:30:00", "12:30:00"),
        ("0123", "0123"),
        ("0x1F", "0x1F"),
        ("0o17", "0o17"),
        ("1_000", "1_000"),
        ("2026-11-21", "2026-11-21"),
        ("=", "="),
        ("<<", "<<"),
        (".", "."),
        ("-", "-"),
        ("+", "+"),
        ("1e", "1e"),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("-0", 0),
        ("+5", 5),
        ("1.", 1.0),
        ("18446744073709551615", 2**64 - 1),
        ("1" * 5000, "1" * 5000),
        ("true", True),
        ("True", True),
        ("FALSE", False),
        ("tRUE", "tRUE"),
        ("null", None),
        ("~", None),
        ("", None),
        ("Null", None),
        ("nUll", "nUll"),
        (".inf", ".inf"),
        ("١", "١"),
    ],
)
def test_an_unquoted_scalar_means_what_people_wrote(text: str, value: object) -> None:
    assert scalar(text) == value
    assert type(scalar(text)) is type(value)


def test_keys_and_quoted_scalars_are_text() -> None:
    document = read_yaml("f", b"no: 'no'\n12: \"12\"\nnull: 'null'\ntrue: |\n  x\n")

    assert document.data == {"no": "no", "12": "12", "null": "null", "true": "x\n"}
    assert document.problems == []


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (
            b"a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\na: 2\n",
            [
                "f:5:3: b.c: stands twice, first in line 3; remove one of the two",
                "f:6:1: a: stands twice, first in line 1; remove one of the two",
            ],
        ),
        (b"a: &x [1]\nb: *x\n", ["f:2:1: b: is an alias of another value; write the value out"]),
        (b"a: &x [*x]\n", ["f:1:4: a[0]: is an alias of another value; write the value out"]),
        (
            b"a: !!python/object:os.system x\n",
            ["f:1:1: a: has a tag, which is not supported; write the plain value"],
        ),
        (b"a: !!int '5'\n", ["f:1:1: a: has a tag, which is not supported; write the plain value"]),
        (b"? [a]\n: 1\n", ["f:1:3: has a key that is not text; write a plain name"]),
        (b"--- a\n--- b\n", ["f:2:1: is no YAML: but found another document"]),
        (b"a: b\n\xff", ["f:2:1: is not UTF-8; save the file as UTF-8"]),
        (b"a: [1\nb: 2\n", ["f:2:2: is no YAML: did not find expected ',' or ']'"]),
    ],
)
def test_what_is_ambiguous_in_yaml_is_a_problem_with_its_place(raw: bytes, problem: list[str]) -> None:
    assert [str(found) for found in read_yaml("f", raw).problems] == problem


def test_a_syntax_error_does_not_quote_the_line() -> None:
    assert "hunter2" not in str(read_yaml("f", b"password: [hunter2: }\n").problems)


@given(st.binary(max_size=60) | st.text("ab:- \n[]{}'\"#&*!|>%@`?,~\t0", max_size=40).map(str.encode))
def test_any_bytes_are_data_or_problems(raw: bytes) -> None:
    document = read_yaml("f", raw)

    assert all(problem.line >= 1 and problem.column >= 1 for problem in document.problems)


TEXT = st.text("aé中𐀀 :-#'\"\\\n\t{}[],&*!%@`?|>0.~", max_size=8)
DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(TEXT, DATA, max_size=4))
def test_what_a_yaml_writer_writes_comes_back_with_a_place_for_each_key(data: dict[str, object]) -> None:
    document = read_yaml("f", json.dumps(data, ensure_ascii=False).encode())

    assert document.problems == []
    assert document.data == data
    assert {path[0] for path in document.keys if len(path) == 1} == set(data)


SHAPES = st.recursive(
    st.sampled_from(
        [
            None,
            True,
            0,
            1.5,
            "",
            "x",
            "auto",
            "ticdc-open",
            "canal",
            "ticdc-storage",
            "resolved",
            "${env:A}",
            "${",
            "earliest",
        ]
    ),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    *SourceConfig.model_fields,
                    *TableConfig.model_fields,
                    "topics",
                    "topic_pattern",
                    "path",
                    "mode",
                    "x",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(SHAPES)
def test_data_of_any_shape_gives_problems_and_never_another_error(data: object) -> None:
    from lakehouse.config.load import _source, _table

    for read in (_source, _table):
        document = read_yaml("s.yml", json.dumps(data).encode())
        model = read(document)
        assert model is not None or document.problems


# --- secrets

SECRET = "hunter2-and-more"
JAAS = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="u" password="{}";'
SECRET_OPTIONS = [
    ("kafka.ssl.keystore.password", "{}"),
    ("kafka.ssl.key.password", "{}"),
    ("kafka.ssl.keystore.key", "{}"),
    ("kafka.sasl.jaas.config", JAAS),
    ("kafka.sasl.oauthbearer.client.credentials.client.secret", "{}"),
    ("kafka.sasl.jaas.config", JAAS.replace("password", "clientSecret")),
]


@pytest.mark.parametrize(("name", "pattern"), SECRET_OPTIONS)
@pytest.mark.parametrize("literal", [SECRET, "${env:PW:-" + SECRET + "}", "x${env:PW}" + SECRET])
def test_a_secret_that_is_written_out_is_an_error_that_does_not_show_it(
    tmp_path: Path, name: str, pattern: str, literal: str
) -> None:
    options = json.dumps({name: pattern.format(literal)})
    lines = of_source(
        tmp_path,
        (
            "format: ticdc-open\nkafka:\n  bootstrap_servers: b\n  topics: [a]\n  options: "
            f"{options}\ntime_zone: UTC\n"
        ),
    )

    assert any(
        line.endswith(
            "holds a secret; keep it elsewhere: ${env:NAME}, {{secrets/scope/key}} or "
            "${secret:scope/key}, without a default"
        )
        for line in lines
    )
    assert SECRET not in "".join(lines)


@pytest.mark.parametrize(("name", "pattern"), SECRET_OPTIONS)
@pytest.mark.parametrize("reference", ["${env:PW}", "{{secrets/kafka/pw}}", "${secret:kafka/pw}"])
def test_a_reference_to_a_secret_is_none(name: str, pattern: str, reference: str) -> None:
    assert not holds_secret(name, pattern.replace("{}", reference))


def test_a_password_in_a_url_or_in_a_misplaced_option_is_found_too(tmp_path: Path) -> None:
    text = f"format: ticdc-storage\nstorage: {{path: 's3a://key:{SECRET}@bucket/x'}}\npassword: {SECRET}\n"
    lines = of_source(tmp_path, text)

    assert [line.split(": ")[1] for line in lines if "holds a secret" in line] == ["storage.path", "password"]
    assert SECRET not in "".join(lines)


DATABASE = "format: ticdc-open\nrecording: r\ntime_zone: UTC\ndatabase:\n  host: ${env:HOST:-db}\n  user: u\n"


def test_a_source_s_database_is_resolved_where_it_is_needed_and_shows_no_password(tmp_path: Path) -> None:
    source = load(write(tmp_path, sources__s=DATABASE + "  password: ${env:PW}\n")).sources["s"]

    found = database_settings(source, {"PW": SECRET})

    assert (found.host, found.port, found.user, found.password) == ("db", 3306, "u", SECRET)
    assert (found.tls, found.ca) == ("verified", None)
    assert SECRET not in repr(found) + str(found) + repr(source) + source.model_dump_json()
    with pytest.raises(ConfigError, match="source s: names no database; add `database: "):
        database_settings(source.model_copy(update={"database": None}))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("password: hunter2", "7:3: database.password: holds a secret; keep it elsewhere: ${env:NAME}, "
         "{{secrets/scope/key}} or ${secret:scope/key}, without a default"),
        ("prot: 1", "7:3: database.prot: unknown option; did you mean `port`?"),
        ("port: 70000", "7:3: database.port: input should be less than or equal to 65535"),
        ("tls: maybe", "7:3: database.tls: expected one of verified, unverified, off"),
        ("tls: off\n  ca: a.pem", "8:3: database.ca: has no effect with tls: off; remove it, or use tls: "
         "verified"),
        ("ca: ${secret:a/b}", "7:3: database.ca: can't hold a secret; use ${env:NAME} here; secrets are for "
         "kafka.options and database.password"),
    ],
)  # fmt: skip
def test_problems_of_a_source_s_database_have_their_place(tmp_path: Path, line: str, problem: str) -> None:
    (told,) = of_source(tmp_path, DATABASE + f"  {line}\n")

    assert told.startswith(problem)


def secret_source(tmp_path: Path) -> SourceConfig:
    text = """format: ticdc-open
kafka:
  bootstrap_servers: ${env:SERVERS:-a:1}
  topics: [t]
  options: {kafka.sasl.jaas.config: "{{ secrets/kafka/jaas }}", kafka.ssl.key.password: "${env:PW}"}
claim_check: ${env:ROOT}/claims
lake: ${env:ROOT}/lake
"""
    return load(write(tmp_path, sources__s=text)).sources["s"]


def test_references_are_resolved_late_and_shown_nowhere(tmp_path: Path) -> None:
    source = secret_source(tmp_path)

    secrets = kafka_options(source, {"PW": SECRET}, lambda scope, key: f"{scope}/{key}={SECRET}")

    assert dict(secrets) == {
        "kafka.isolation.level": "read_committed",
        "kafka.bootstrap.servers": "a:1",
        "kafka.sasl.jaas.config": f"kafka/jaas={SECRET}",
        "kafka.ssl.key.password": SECRET,
    }
    log = io.StringIO()
    logging.getLogger("test").addHandler(handler := logging.StreamHandler(log))
    logging.getLogger("test").warning("%s %r %s", secrets, secrets, [secrets])
    logging.getLogger("test").removeHandler(handler)
    shown = [
        str(secrets),
        repr(secrets),
        f"{secrets}",
        log.getvalue(),
        repr(source),
        str(source),
        source.model_dump_json(),
        repr(source.model_dump()),
    ]
    assert SECRET not in "".join(shown)
    with pytest.raises(TypeError, match="not JSON serializable"):
        json.dumps(secrets)
    with pytest.raises(TypeError, match="resolved secrets are not written anywhere"):
        pickle.dumps(secrets)


def test_paths_and_addresses_are_resolved_apart_from_secrets(tmp_path: Path) -> None:
    resolved = resolve_source(secret_source(tmp_path), {"ROOT": "/data", "PW": SECRET})

    assert resolved.lake is not None and resolved.kafka is not None
    assert (resolved.lake.path, resolved.claim_check, resolved.kafka.bootstrap_servers) == (
        "/data/lake",
        "/data/claims",
        "a:1",
    )
    assert SECRET not in repr(resolved)


def test_a_reference_without_a_value_is_named_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        kafka_options(secret_source(tmp_path), {}, lambda scope, key: SECRET)

    assert str(error.value) == "${env:PW}: the environment variable PW is not set; set it"
    assert SECRET not in "".join(traceback.format_exception(error.value))


def test_a_secret_scope_outside_databricks_says_so() -> None:
    with pytest.raises(
        ConfigError,
        match=re.escape("secret a/b: secret scopes are there on Databricks only; use ${env:NAME} elsewhere"),
    ):
        resolve_text("${secret:a/b}", {})


@given(
    st.text("ab$", max_size=5),
    st.sampled_from(["${env:X}", "{{secrets/a/b}}", "${secret:a/b}", "${env:X:-d}"]),
    st.text("ab}", max_size=5),
)
def test_a_reference_is_replaced_and_what_is_around_it_stays(before: str, reference: str, after: str) -> None:
    resolved = resolve_text(before + reference + after, {"X": "v"}, lambda scope, key: "v")

    assert resolved == f"{before}v{after}"
    assert not is_malformed(before + reference + after)


@pytest.mark.parametrize(
    "text",
    [
        "${HOME}",
        "${env:}",
        "${env:a-b}",
        "{{secrets/a}}",
        "${secret:a}",
        "${",
        "{{x}}",
        "${env:A",
        "${secret:a/b/c}",
    ],
)
def test_what_only_looks_like_a_reference_is_malformed(text: str) -> None:
    assert is_malformed(text)


def test_secrets_are_a_mapping_of_their_names() -> None:
    assert repr(Secrets({"a": "x", "b": "y"})) == "Secrets(a, b)"


# --- what is committed


@pytest.mark.parametrize(
    "example", sorted((ROOT / "configs/examples").glob("*.yml")), ids=lambda path: path.stem
)
def test_every_example_validates_names_its_schema_and_is_short(example: Path) -> None:
    lines = example.read_text(encoding="utf-8").splitlines()

    source = load_source(example)

    assert source.format == example.stem
    assert lines[0] == "# yaml-language-server: $schema=../../lakehouse/config/schema/source.json"
    assert (example.parent / lines[0].partition("=")[2]).is_file()
    assert len(lines) <= 25


def test_there_is_an_example_of_every_format() -> None:
    assert {path.stem for path in (ROOT / "configs/examples").glob("*.yml")} == set(FORMATS)


def test_the_committed_configuration_has_no_problem_and_no_warning() -> None:
    assert check(ROOT / "configs") == ([], [])


@pytest.mark.parametrize("kind", ["source", "table"])
def test_the_committed_json_schema_is_the_models(kind: str) -> None:
    committed = (config_schema.FOLDER / f"{kind}.json").read_text(encoding="utf-8")

    assert committed == config_schema.schema_text(kind), (
        "run `python -m lakehouse.config.schema docs/configuration.md`"
    )


def test_the_committed_page_is_the_models() -> None:
    committed = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")

    assert committed == config_schema.docs_text(), (
        "run `python -m lakehouse.config.schema docs/configuration.md`"
    )


def test_every_option_of_the_models_says_what_it_does() -> None:
    for kind in ("source", "table"):
        schema = json.loads(config_schema.schema_text(kind))
        for model in (schema, *schema["$defs"].values()):
            assert [
                name for name, option in model["properties"].items() if not option.get("description")
            ] == []


@given(st.sampled_from(sorted(SourceConfig.model_fields)), st.integers(0, 20))
def test_the_nearest_name_to_a_name_that_lacks_a_letter_is_that_name(name: str, at: int) -> None:
    at %= len(name)
    typo = name[:at] + name[at + 1 :]

    assert nearest(typo, SourceConfig.model_fields) == name


def test_a_problem_reads_as_one_sentence() -> None:
    assert str(Problem("f.yml", 3, 5, "a.b", "is wrong", "mend it")) == "f.yml:3:5: a.b: is wrong; mend it"
    assert known_option("ticdc-storage", "csv.binary-encoding-method") == "binary-encoding-method"
