"""The house rules that no linter knows: sizes, and one door for each concern."""

from __future__ import annotations

import ast
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "allm_django"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if "migrations" not in path.parts and path.read_text())


def name(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node


def length(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def high(values: list[int]) -> int:
    return sorted(values)[int(0.9 * len(values))]


def test_modules_are_short() -> None:
    sizes = {name(path): len(path.read_text().splitlines()) for path in MODULES}
    assert {module: size for module, size in sizes.items() if size > 400} == {}
    assert high(list(sizes.values())) <= 200


def test_functions_are_short() -> None:
    sizes = {f"{name(path)}:{node.lineno}": length(node) for path in MODULES for node in functions(path)}
    assert {place: size for place, size in sizes.items() if size > 60} == {}
    assert high(list(sizes.values())) <= 25
    assert statistics.median(sizes.values()) <= 8


def test_each_module_says_what_it_is() -> None:
    assert [name(path) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))] == []


def test_each_module_with_functions_postpones_annotations() -> None:
    modules = [path for path in MODULES if any(functions(path))]
    assert [name(path) for path in modules if "from __future__ import annotations" not in path.read_text()] == []


def test_public_functions_and_classes_have_docstrings() -> None:
    assert [
        f"{name(path)}: {node.name}"
        for path in MODULES
        for node in ast.parse(path.read_text()).body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and not any(isinstance(mark, ast.Name) and mark.id == "overload" for mark in node.decorator_list)
    ] == []


def test_only_conf_reads_the_settings() -> None:
    readers = {name(path) for path in MODULES if "import settings" in path.read_text()}
    models = {
        place for place in readers if place.startswith("allm_django/models/")
    }  # AUTH_USER_MODEL, by Django's rule
    assert readers - models == {"allm_django/conf.py"}


def test_only_the_store_locks() -> None:
    lockers = {name(path) for path in MODULES if "select_for_update(" in path.read_text()}
    assert {place for place in lockers if not place.startswith("allm_django/store/")} == set()


def test_the_pure_rooms_run_without_django() -> None:
    code = """
import sys
import importlib.abc

class Refuse(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("django", "channels", "rest_framework"):
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
import pkgutil, importlib
importlib.import_module("allm_django.providers.resolve")
for room in ("core", "tools", "loop"):
    package = importlib.import_module(f"allm_django.{room}")
    for module in pkgutil.iter_modules(package.__path__):
        importlib.import_module(f"allm_django.{room}.{module.name}")
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_starting_django_imports_no_provider_library() -> None:
    code = """
import sys
import django

django.setup()
print(sorted({"pydantic_ai", "openai", "anthropic", "google.genai"} & set(sys.modules)))
"""
    environment = {"DJANGO_SETTINGS_MODULE": "tests.settings", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False, env=environment
    )
    assert done.stdout.strip() == "[]", done.stderr
