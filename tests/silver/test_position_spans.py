"""No position that a batch has is outside of the spans that silver is looked through for."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.silver.position_spans import SPANS, Span, spans_of

numbers = st.one_of(st.integers(0, 60), st.integers(-(2**63), 2**63 - 1))
positions = st.tuples(st.integers(0, 3), numbers, *[st.integers(0, 2)] * 4)
bounds = st.lists(st.tuples(positions, positions).map(lambda two: (min(two), max(two))), max_size=40)


def is_in(position: tuple[int, ...], span: Span) -> bool:
    return position[0] == span.epoch and span.low <= position[1] <= span.high


@given(bounds, st.lists(positions, max_size=40))
def test_what_lies_between_any_bounds_is_in_a_span(pairs, met) -> None:  # type: ignore[no-untyped-def]
    spans = spans_of(pairs)

    assert len(spans) <= SPANS
    assert all(one.epoch < two.epoch or one.high < two.low for one, two in pairwise(spans))
    for position in [*met, *(end for pair in pairs for end in pair)]:
        if any(low <= position <= high for low, high in pairs):
            assert any(is_in(position, span) for span in spans)


def test_one_old_row_among_new_ones_does_not_bring_all_between() -> None:
    new = [(0, number, 0, 0, 0, 0) for number in range(1_000_000, 1_000_500)]
    old = (0, 7, 0, 0, 0, 0)

    spans = spans_of((one, one) for one in [*new, old])

    assert spans[0] == Span(0, 7, 7)
    assert spans[1].low == 1_000_000


def test_more_epochs_than_spans_are_a_span_each() -> None:
    spans = spans_of(((epoch, 1, 0, 0, 0, 0), (epoch, 9, 0, 0, 0, 0)) for epoch in range(SPANS + 3))

    assert spans == tuple(Span(epoch, 1, 9) for epoch in range(SPANS + 3))
    assert spans_of([]) == ()
