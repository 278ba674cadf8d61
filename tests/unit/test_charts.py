"""Pictures drawn on the server: numbers become lengths, unknown is not 0, and nothing is inline (M05, M07)."""

from __future__ import annotations

import re
from xml.etree import ElementTree

from allm_django.admin.charts import Series, Span, columns, lanes, meter, sparkline, stacked

EVIL = '"><script>alert(1)</script>'


def drawn(svg: str) -> list[dict[str, str]]:
    return [dict(node.attrib) for node in ElementTree.fromstring(svg).iter("rect") if "tone" in node.attrib["class"]]


def test_columns_stack_on_one_scale() -> None:
    svg = columns(["a", "b"], [Series("x", "tool", [1, 2]), Series("y", "bad", [1, 2])], title="T", most="4")
    assert [box["height"] for box in drawn(svg)] == ["27.5", "27.5", "55.0", "55.0"]
    assert {box["width"] for box in drawn(svg)} == {"36.000%"}


def test_unknown_is_marked_and_nothing_is_not() -> None:
    svg = columns(["a", "b", "c"], [Series("x", "tool", [None, 0, 5])], title="T", most="5")
    assert [box["class"] for box in drawn(svg)] == ["allm-tone-unknown", "allm-tone-tool"]


def test_spans_that_overlap_get_rows_of_their_own() -> None:
    a, b, c = Span("a", "tool", 0, 2), Span("b", "tool", 1, 3), Span("c", "tool", 2, 4)
    assert stacked([c, b, a]) == [[a, c], [b]]
    boxes = drawn(lanes([("Tools", stacked([a, b, c]))], 4, title="T", ticks=[(0, "0"), (4, "4 s")]))
    assert [(box["x"], box["width"]) for box in boxes] == [
        ("0.000%", "50.000%"),
        ("50.000%", "50.000%"),
        ("25.000%", "50.000%"),
    ]


def test_pictures_of_nothing_can_be_drawn() -> None:
    for svg in (
        columns([], [], title="T", most="0"),
        sparkline([], "T"),
        meter(0, 0),
        lanes([], 0, title="T", ticks=[]),
    ):
        ElementTree.fromstring(svg)


def test_text_is_escaped_and_nothing_is_inline() -> None:
    series = [Series(EVIL, "tool", [1, 2, 3])]
    for svg in (
        columns([EVIL] * 3, series, title=EVIL, most=EVIL, hints=[EVIL] * 3),
        sparkline(series, EVIL),
        lanes([(EVIL, [[Span(EVIL, "tool", 0, 1)]])], 1, title=EVIL, ticks=[(0, EVIL)]),
    ):
        ElementTree.fromstring(svg)
        assert "<script" not in svg
        assert not re.search(r"\sstyle=|\son[a-z]+=", svg)
