"""Each row of the checklist is shown by a test, and docs/conformance.md says by which."""

from __future__ import annotations

import ast

from tests import conformance

MARKED = """
pytestmark = [pytest.mark.django_db, pytest.mark.row("S01")]

@pytest.mark.row("T01", "T02")
@pytest.mark.parametrize("a", [1])
async def test_one(): ...

@pytest.mark.row("R01")
class TestGroup:
    @pytest.mark.row("R02")
    def test_two(self): ...

TestMachine = Machine.TestCase
TestMachine.pytestmark = [pytest.mark.row("L01")]
"""


def test_each_row_is_shown_by_a_test() -> None:
    assert [row for row, tests in conformance.shown().items() if not tests] == []


def test_the_document_is_what_the_marks_say() -> None:
    assert conformance.written() == conformance.shown(), f"docs/conformance.md is stale; run: {conformance.COMMAND}"


def test_marks_are_found_wherever_pytest_finds_them() -> None:
    assert sorted(conformance.marks(ast.parse(MARKED).body)) == [
        ("TestGroup::test_two", "R01"),
        ("TestGroup::test_two", "R02"),
        ("TestGroup::test_two", "S01"),
        ("TestMachine", "L01"),
        ("test_one", "S01"),
        ("test_one", "T01"),
        ("test_one", "T02"),
    ]
