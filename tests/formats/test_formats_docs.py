"""The pages about formats say of them, their options, their producers' settings and their losses what the
code and the accepted list say.
"""

from pathlib import Path

import pytest

from lakehouse.formats import FORMATS
from tests.support.formats_docs import DOCS, FAMILIES, as_generated, generated


@pytest.mark.parametrize("path", generated(), ids=lambda path: path.name)
def test_a_page_is_as_it_is_generated(path: Path) -> None:
    text = path.read_text(encoding="utf-8")

    assert text == as_generated(path), "run `python -m tests.support.formats_docs`"


def test_every_format_has_a_page_with_its_options_and_settings() -> None:
    assert sorted(name for names in FAMILIES.values() for name in names) == sorted(FORMATS)
    for page, names in FAMILIES.items():
        text = (DOCS / page).read_text(encoding="utf-8")
        for name in names:
            wanted = [*FORMATS[name].options, *FORMATS[name].harmful_settings]
            assert [word for word in (name, *wanted) if f"`{word}`" not in text] == []
