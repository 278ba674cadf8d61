"""Which tests show which rows of the checklist: docs/conformance.md, read from the tests' marks without running them.

``python -m tests.conformance`` prints the table, ``--write`` puts it where it belongs.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

from tests.rows import ROWS

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "conformance.md"
COMMAND = "python -m tests.conformance --write"
PARTS = {
    "T": "Tools",
    "R": "Resolvers and recipes",
    "L": "Loop",
    "S": "Sessions",
    "H": "Approval of calls",
    "M": "Admin",
}

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Shown = dict[str, list[str]]


def shown() -> Shown:
    """For each row the tests that show it, as ``folder/file.py::test``, sorted. Raises ValueError for unknown rows."""
    rows: Shown = {id: [] for id in ROWS}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for test, id in marks(ast.parse(path.read_text()).body):
            place = f"{path.relative_to(ROOT / 'tests').as_posix()}::{test}"
            if id not in rows:
                raise ValueError(f"{place}: {id!r} is no row of tests/rows.py")
            rows[id].append(place)
    return {id: sorted(set(tests)) for id, tests in rows.items()}


def marks(body: list[ast.stmt], within: str = "", inherited: tuple[str, ...] = ()) -> Iterator[tuple[str, str]]:
    """(test, row) of each mark in ``body``; a class's marks, and ``pytestmark``, count for each test in it."""
    inherited += tuple(id for node in body if _marked(node) == "pytestmark" for id in _rows(node))
    for node in body:
        if (name := _marked(node)).endswith(".pytestmark"):  # TestMachine.pytestmark = […]: hypothesis made the class
            yield from ((within + name.removesuffix(".pytestmark"), id) for id in _rows(node))
        if isinstance(node, Definition) and node.name.lower().startswith("test"):
            ids = inherited + tuple(id for mark in node.decorator_list for id in _rows(mark))
            if isinstance(node, ast.ClassDef):
                yield from marks(node.body, f"{within}{node.name}::", ids)
            else:
                yield from ((within + node.name, id) for id in ids)


def _marked(node: ast.stmt) -> str:
    """What an assignment gives marks to: ``pytestmark``, or ``TestThing.pytestmark``; else ``""``."""
    target = ast.unparse(node.targets[0]) if isinstance(node, ast.Assign) else ""
    return target if target.split(".")[-1] == "pytestmark" else ""


def _rows(node: ast.AST) -> Iterator[str]:
    """The ids in each ``pytest.mark.row(…)`` within ``node``."""
    for call in ast.walk(node):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "pytest.mark.row":
            yield from (str(ast.literal_eval(argument)) for argument in call.args)


def document(rows: Shown) -> str:
    """docs/conformance.md."""
    lines = [
        "# Conformance",
        "",
        f"What the product does, row by row, and the tests that show it. Written by `{COMMAND}` from the tests' marks.",
    ]
    for letter, title in PARTS.items():
        lines += ["", f"## {title}", "", "| row | what | shown by, in `tests/` |", "|---|---|---|"]
        lines += [_line(id, rows[id]) for id in ROWS if id.startswith(letter)]
    return "\n".join(lines) + "\n"


def _line(id: str, tests: list[str]) -> str:
    return f"| {id} | {ROWS[id]} | {'<br>'.join(f'`{test}`' for test in tests) or 'nothing yet'} |"


def written() -> Shown:
    """The same as :func:`shown`, as docs/conformance.md has it."""
    lines = DOCUMENT.read_text().splitlines() if DOCUMENT.exists() else []
    cells = [line.split(" | ") for line in lines if re.match(r"\| [A-Z]\d\d \|", line)]
    return {row[0].removeprefix("| "): re.findall(r"`([^`]+::[^`]+)`", row[-1]) for row in cells}


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--write", action="store_true", help="write docs/conformance.md")
    text = document(shown())
    if parser.parse_args().write:
        DOCUMENT.write_text(text)
    else:
        print(text, end="")  # noqa: T201


if __name__ == "__main__":
    main()
