"""The server's pages, from readings without a lake: what each shows, and that nothing of a message is a
tag.
"""

import xml.etree.ElementTree as ElementTree

import pytest

from lakehouse.reporting.text.values import hex_lines
from lakehouse.reporting.web.readings import NotThere
from lakehouse.reporting.web.routes import BadAddress
from tests.reporting.web.test_report import html_of, observed, parsed, words
from tests.support.readings import EVIL, PLACE, FakeReadings, site_of

LETTER = "source=shop&topic=shop&incarnation=a-1&partition=2&offset=7"
ADDRESSES = (
    "/?",
    "/table?source=shop&table=shop.orders",
    "/row?source=shop&table=shop.orders&k=1",
    "/letters?source=shop",
    f"/letter?{LETTER}",
    "/manifests?source=shop",
    "/diff?source=shop&from=5&to=9",
    "/changes?source=shop&table=shop.orders&from=5&to=9",
)


def html(address: str, readings: FakeReadings | None = None) -> str:
    path, _, query = address.partition("?")
    return site_of(readings or FakeReadings(lambda: [observed()])).page(path, query)()


def hrefs(page: str) -> list[str]:
    return [str(element.get("href")) for element in parsed(page).iter("a")]


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_page_is_well_formed_loads_nothing_and_has_no_tag_of_a_message(address: str) -> None:
    root = parsed(html(address))

    scripts = [element for element in root.iter("script") if "setTimeout" not in (element.text or "")]
    attributes = {name for element in root.iter() for name in element.attrib}
    assert scripts == []
    assert {element.tag for element in root.iter()} & {"link", "img", "iframe", "object", "base"} == set()
    assert {name for name in attributes if name.startswith("on") or name in ("style", "src")} == set()
    assert len([*root.iter("h1")]) == len([*root.iter("main")]) == 1


@pytest.mark.parametrize("address", ADDRESSES)
def test_every_link_and_form_leads_to_a_page(address: str) -> None:
    page = html(address)

    for link in hrefs(page):
        if not link.startswith("#"):
            assert parsed(html(link)).find(".//h1") is not None, link
    for form in parsed(page).iter("form"):
        assert form.get("action") in ("/row", "/diff")


def test_a_table_shows_its_state_what_mends_it_its_rows_and_its_statements() -> None:
    said = words(html("/table?source=shop&table=shop.orders"))

    for what in (
        "behind since 2026-11-21 01:07:00 UTC (TSO 470606995849740288): held by a DDL",
        "lakehouse ddl approve shop.orders --why … apply the statement",
        "Names so far: shop.old, shop.orders",
        "history 1 Alice NULL",
        "The first 2 rows of more.",
        "removes a column",
    ):
        assert what in said
    assert "x" * 299 + "…" in said
    assert "x" * 301 not in said


def test_a_rows_history_shows_what_each_change_changed_and_where_it_came_from() -> None:
    page = html("/row?source=shop&table=shop.orders&k=1")
    said = words(page)

    assert "insert id: 1 name: " in said
    assert "note: NULL" in said
    assert "update name: a → b shop/0@1[0] shop.orders, batch 3" in said.replace(f"; {EVIL}", "")
    assert "delete id: 1" in said
    assert "binlog 3:4 2026-11-21 01:07:00 UTC delete" in said
    assert "/row?source=shop&table=shop.orders&k=1&after=0,3,4,5,6,7,1".replace(",", "%2C") in hrefs(page)


def test_the_changes_between_two_manifests_say_which_row_each_is_of() -> None:
    readings = FakeReadings(lambda: [observed()])
    address = "/changes?source=shop&table=shop.orders&from=9&to=5"
    page = html(address, readings)

    assert readings.asked == [("changes", "shop", "shop.orders", (5, 9), None)]
    assert "update id: 1 name: a → b" in words(page)
    assert "/diff?source=shop&from=5&to=9" in hrefs(page)
    assert "/changes?source=shop&table=shop.orders&from=5&to=9" in hrefs(
        html("/diff?source=shop&from=5&to=9")
    )
    page = html(f"{address}&after=0,3,4,5,6,7,50", readings)
    assert readings.asked[-1][-1] == ((0, 3, 4, 5, 6, 7), 50)
    assert any(one.endswith("after=0,3,4,5,6,7,51".replace(",", "%2C")) for one in hrefs(page))


def test_a_key_is_asked_for_by_its_values_and_a_place_by_its_position_and_a_number() -> None:
    readings = FakeReadings(lambda: [observed()])

    html("/row?source=shop&table=a.b&k=1&k=&k=Z%C3%BC%26x&after=0,1,2,3,4,5,6", readings)

    assert readings.asked[-1] == ("row", "shop", "a.b", ("1", "", "Zü&x"), ((0, 1, 2, 3, 4, 5), 6))


def test_dead_letters_show_no_bytes_until_one_is_asked_for() -> None:
    letters, letter = html("/letters?source=shop&page=1"), html(f"/letter?{LETTER}")

    assert "3c 73 63" not in words(letters)
    assert "00000000 00 3c 73 63 72 69 70 74 3e 61 6c 65 72 74 28 27 |.<script>alert('|" in words(letter)
    assert "the first 31 B of 1.0 MB" in words(letter)
    assert {"/letters?source=shop&page=0", "/letters?source=shop&page=2"} <= set(hrefs(letters))
    assert "lakehouse dead-letters requeue shop" in words(letters)


def test_a_letters_place_is_asked_for_as_it_is() -> None:
    readings = FakeReadings(lambda: [observed()])

    html(f"/letter?{LETTER}", readings)

    assert readings.asked == [("letter", "shop", PLACE)]


def test_two_manifests_show_their_difference_the_older_one_first_whatever_the_order_asked() -> None:
    readings = FakeReadings(lambda: [observed()])
    said = words(html("/diff?source=shop&from=9&to=5", readings))

    assert readings.asked == [("difference", "shop", 5, 9)]
    assert "Manifest 5 → 9" in said
    assert "shop.orders exact → behind 11 → 12 40 " in said
    assert "shop.new not there → exact none → 0 3" in said
    assert "shop.gone exact → not there 4 → none 0" in said
    assert "5 tables as before." in said


def test_manifests_are_chosen_by_two_buttons_each_that_say_which_they_are() -> None:
    radios = [
        (one.get("name"), one.get("value"), one.get("aria-label"), one.get("checked") is not None)
        for one in parsed(html("/manifests?source=shop")).iter("input")
        if one.get("type") == "radio"
    ]

    assert radios == [
        ("from", "9", "from manifest 9", False),
        ("to", "9", "to manifest 9", True),
        ("from", "5", "from manifest 5", True),
        ("to", "5", "to manifest 5", False),
    ]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("/row?source=shop&table=a.b", "/row: expected the values of a key, k=…, found none"),
        ("/row?source=shop&k=1", "expected table= in the address, found none"),
        (
            "/row?source=shop&table=a.b&k=1&after=1,2",
            "expected a position of six integers, and a number, in the address",
        ),
        ("/letters?source=shop&page=-1", "expected a number from 0 to 200 in the address"),
        ("/letters?source=shop&page=201", "expected a number from 0 to 200 in the address"),
        (
            "/letter?source=shop&topic=t&partition=²&offset=1",
            "expected a number from 0 to 2147483647 in the address",
        ),
        ("/diff?source=shop&from=1", "expected to= in the address, found none"),
        (
            "/diff?source=shop&from=1&to=" + "9" * 30,
            f"expected a number from 0 to {2**63 - 1} in the address",
        ),
        ("/row?" + "k=1&" * 70, "expected at most 64 fields of UTF-8 in the address"),
        ("/table?source=%ff", "expected at most 64 fields of UTF-8 in the address"),
    ],
)
def test_an_address_that_can_not_be_is_refused_with_what_was_expected(address: str, said: str) -> None:
    with pytest.raises(BadAddress) as error:
        html(address)

    assert str(error.value) == said


@pytest.mark.parametrize("path", ["/etc/passwd", "//", "/../x", "/letter/..", "/favicon.ico", ""])
def test_no_path_leads_anywhere_but_to_a_page(path: str) -> None:
    with pytest.raises(NotThere):
        html(path)


def test_bytes_are_written_as_hexadecimal_digits_and_what_is_ascii_of_them() -> None:
    assert list(hex_lines(bytes(range(30, 50)))) == [
        "00000000  1e 1f 20 21 22 23 24 25  26 27 28 29 2a 2b 2c 2d  |.. !\"#$%&'()*+,-|",
        "00000010  2e 2f 30 31                                       |./01|",
    ]


def test_the_saved_report_is_the_served_page_without_what_needs_the_server() -> None:
    def main(page: str) -> ElementTree.Element:
        found = parsed(page).find(".//main")
        assert found is not None
        return found

    saved, served = main(html_of(observed())), main(html("/"))
    for parent in served.iter():
        for nav in parent.findall("nav"):
            parent.remove(nav)
        for cell in parent.findall("a"):
            parent.text, parent[:] = "".join(cell.itertext()), []

    assert "".join(saved.itertext()) == "".join(served.itertext())
    assert [*saved.iter("a")] == []
