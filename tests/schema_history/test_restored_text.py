"""TiCDC sends statements as TiDB's parser prints them (`RestoreStringSingleQuotes` alone): a backslash in a
string is one, and no escape. In a value it is doubled since TiDB 5.0, in a label it is not.
"""

import pytest

from tests.support.feeds import Canal, TiCDC

CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY)"


def filled(feed: TiCDC, default: str) -> object:
    feed.ddl(1, CREATE).insert(2, id=1)
    [row] = feed.ddl(3, f"ALTER TABLE `t` ADD COLUMN `a` VARCHAR(20) DEFAULT {default}").table()
    assert feed.incomplete() is None
    return row["a"]


@pytest.mark.parametrize(
    ("default", "value"),
    [
        (r"_UTF8MB4'C:\temp\new'", r"C:\temp\new"),
        (r"_UTF8MB4'it''s \'''", r"it's \'"),
        (r"_UTF8MB4'\\host\'", "\\\\host\\"),
        (r"_UTF8MB4'100\%'", r"100\%"),
        (r"_UTF8MB4'n\\'", "n\\"),
        (r"_UTF8MB4'dq''\\'", "dq'\\"),
        (r"_LATIN1'\\n''\\'", "\\n'\\"),
    ],
)
def test_a_backslash_in_a_statement_of_ticdc_is_one(default: str, value: str) -> None:
    assert filled(TiCDC(), default) == value


def test_elsewhere_it_escapes_as_in_the_statement_of_its_author() -> None:
    assert filled(Canal(), r"'C:\\temp\tnew'") == "C:\\temp\tnew"


def test_a_label_has_it_too_and_a_name_keeps_its_own() -> None:
    feed = TiCDC().ddl(1, r"CREATE TABLE `t` (`id` INT PRIMARY KEY,`a\b` ENUM('x\n','y') COMMENT '\')")
    feed.row(2, "INSERT", {"id": 1, "a\\b": 1}, types={"id": "int", "a\\b": "enum"})

    assert feed.table() == [{"id": 1, "a\\b": "x\\n"}]


def test_what_ticdc_sent_of_values_and_labels_with_backslashes() -> None:
    """Recorded: the labels are ``\\``, ``'`` and ``\\\\``."""
    feed = TiCDC().ddl(1, CREATE).insert(2, id=1)
    [row] = feed.ddl(
        3,
        r"ALTER TABLE `t` ADD COLUMN `e` ENUM('\','''','\\') DEFAULT _UTF8MB4'\\',"
        r" ADD COLUMN `s` SET('1\2','3') NOT NULL DEFAULT _UTF8MB4'1\\2',"
        r" ADD COLUMN `b` BINARY(3) DEFAULT _UTF8MB4'a\\b', ADD COLUMN `q` INT COMMENT 'x\\'",
    ).table()

    assert row == {"id": 1, "e": "\\", "s": r"1\2", "b": "YVxi", "q": None}
    assert feed.incomplete() is None
