"""CSV of releases that do not split an UPDATE that changes a key (6.5.0 to 6.5.2, 6.6, 7.0): the new image
alone says nothing of the old key.
"""

from pathlib import Path

import pytest

from lakehouse.config.load import load
from lakehouse.discovery.source_checks import source_findings
from lakehouse.events import RowChange
from lakehouse.formats.ticdc.storage import decode
from lakehouse.sources.storage_tree import read_tree
from tests.support.sink_trees import old_layout
from tests.whole_path.test_eight_formats import write_tree

CSV = {"protocol": "csv", "include-commit-ts": "true"}
CREATE = "CREATE TABLE `k`.`t` (`id` INT NOT NULL,`a` INT,PRIMARY KEY(`id`)%s)"
CLUSTERED = " /*T![clustered_index] CLUSTERED */"
NONCLUSTERED = " /*T![clustered_index] NONCLUSTERED */"
ROWS = ('"I","t","k",600,1,10', '"U","t","k",610,2,10', '"D","t","k",620,3,10')
FLAGGED = [(), ("old_key_unknown",), ()]


def flags(root: Path, files: dict[str, bytes]) -> list[tuple[str, ...]]:
    write_tree(root, files)
    events = [event for message in read_tree(root, CSV) for event in decode(message, CSV)]
    return [event.flags for event in events if isinstance(event, RowChange)]


@pytest.mark.parametrize(
    ("create", "query", "expected"),
    [
        (CREATE % NONCLUSTERED, "", FLAGGED),
        (CREATE % "", "", FLAGGED),
        ("CREATE TABLE `k`.`t` (`id` INT NOT NULL,`a` INT COMMENT ' CLUSTERED ',UNIQUE(`id`))", "", FLAGGED),
        ("", "", FLAGGED),
        (CREATE % CLUSTERED, "", [(), (), ()]),
        (CREATE % " CLUSTERED", "", [(), (), ()]),
        (CREATE % CLUSTERED, "ALTER TABLE `k`.`t` ADD INDEX `i`(`a`)", [(), (), ()]),
        (CREATE % CLUSTERED, CREATE % "", FLAGGED),
    ],
)
def test_an_update_that_may_have_changed_the_key_says_so_unless_rows_are_stored_by_it(
    create: str, query: str, expected: list[tuple[str, ...]], tmp_path: Path
) -> None:
    """TiKV itself sends a delete and an insert where rows are stored by the key that changed."""
    assert flags(tmp_path, old_layout(create, *ROWS, query=query)) == expected


def test_what_the_create_said_of_the_key_goes_with_a_rename(tmp_path: Path) -> None:
    files = old_layout(CREATE % CLUSTERED, *ROWS, query="RENAME TABLE `k`.`u` TO `k`.`t`")
    files["k/u/400/schema.json"] = files.pop("k/t/400/schema.json").replace(b"`t`", b"`u`")

    assert flags(tmp_path, files) == [(), (), ()]


def test_releases_with_another_layout_split_such_updates(tmp_path: Path) -> None:
    files = {
        path.replace("400/schema.json", "meta/schema_400_1.json").replace(
            "500/schema.json", "meta/schema_500_1.json"
        ): data
        for path, data in old_layout(CREATE % NONCLUSTERED, *ROWS).items()
    }

    assert flags(tmp_path, files) == [(), (), ()]


def test_doctor_names_the_setting(tmp_path: Path) -> None:
    write_tree(tmp_path / "sink", old_layout(CREATE % NONCLUSTERED, *ROWS))
    (tmp_path / "configs/sources").mkdir(parents=True)
    (tmp_path / "configs/sources/s.yml").write_text(
        f"format: ticdc-storage\nstorage: {{path: {tmp_path / 'sink'}}}\ntables: auto\ntime_zone: UTC\n"
        "options: {protocol: csv, include-commit-ts: true}\n"
    )
    source = load(tmp_path / "configs").sources["s"]

    (found,) = [one for one in source_findings("s", source) if one.state != "ok"]

    assert (found.state, found.text) == (
        "warn",
        "1 updates may have changed a key and don't show the old one: incomplete are k.t",
    )
    assert found.fix.startswith("set output-old-value=true")
