"""docs/formats.md says of the formats, their options and their losses what the code and the accepted list
say.
"""

from lakehouse.formats import FORMATS
from tests.support.formats_docs import PAGE, page


def test_the_page_is_as_it_is_generated() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert text == page(text), "run `python -m tests.support.formats_docs`"


def test_every_format_and_option_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")

    for name, format_ in FORMATS.items():
        assert f"`{name}`" in text
        assert all(f"| `{option}` |" in text for option in format_.options)
