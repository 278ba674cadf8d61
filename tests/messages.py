"""The catalogues of translations, kept in step with the code; only Python is needed.

python -m tests.messages            say what is not translated
python -m tests.messages --write    add new texts to the catalogues, drop old ones, and compile them
"""

from __future__ import annotations

import ast
import io
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from babel.messages.catalog import Catalog
from babel.messages.mofile import write_mo
from babel.messages.pofile import read_po, write_po
from django.utils.translation.template import templatize

PACKAGE = Path(__file__).resolve().parents[1] / "allm_django"
LANGUAGES = ("de",)
SINGLE = {"_", "gettext", "gettext_lazy", "gettext_noop"}
PLURAL = {"ngettext", "ngettext_lazy"}
CONTEXT = {"pgettext", "pgettext_lazy"}
CALL = re.compile(
    r"\b(?:_|gettext|ngettext|pgettext|npgettext)\((?:[^()'\"]|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\")*\)"
)


@dataclass(frozen=True, slots=True, order=True)
class Text:
    """A text that is marked for translation."""

    text: str
    plural: str = ""
    context: str = ""


def texts() -> set[Text]:
    """All texts of the package, from its modules and templates."""
    found: set[Text] = set()
    for path in PACKAGE.rglob("*.py"):
        if "migrations" not in path.parts:
            found |= set(_marked(ast.parse(path.read_text())))
    for path in PACKAGE.rglob("templates/**/*.*"):
        for call in CALL.findall(templatize(path.read_text(), origin=path.name)):
            found |= set(_marked(ast.parse(call)))
    return found


def _marked(tree: ast.AST) -> Iterator[Text]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = getattr(node.func, "id", "") or getattr(node.func, "attr", "")
        given = [arg.value for arg in node.args if isinstance(arg, ast.Constant) and isinstance(arg.value, str)]
        if name in SINGLE and given:
            yield Text(given[0])
        elif name in PLURAL and len(given) > 1:
            yield Text(given[0], plural=given[1])
        elif name in CONTEXT and len(given) > 1:
            yield Text(given[1], context=given[0])


def place(language: str, ending: str) -> Path:
    """Where a catalogue lies."""
    return PACKAGE / "locale" / language / "LC_MESSAGES" / f"django.{ending}"


def catalogue(language: str) -> Catalog:
    """A catalogue as it is written; an empty one if there is none."""
    path = place(language, "po")
    if not path.exists():
        return Catalog(locale=language)
    with path.open("rb") as file:
        return read_po(file, locale=language)


def compiled(catalog: Catalog) -> bytes:
    """What Django reads."""
    file = io.BytesIO()
    write_mo(file, catalog)
    return file.getvalue()


def in_step(old: Catalog) -> Catalog:
    """The catalogue with exactly the texts of the package, in their order, each with its translation if it has one."""
    new = Catalog(
        locale=old.locale, project="allm_django", version="1", header_comment="", fuzzy=False, charset="utf-8"
    )
    new.creation_date = new.revision_date = old.creation_date
    for text in sorted(texts()):
        id = (text.text, text.plural) if text.plural else text.text
        known = old.get(id, context=text.context or None)
        flags = ["python-brace-format"] if re.search(r"\{\w+\}", text.text) else []
        new.add(id, known.string if known else "", context=text.context or None, flags=flags)
    return new


def untranslated(catalog: Catalog) -> list[str]:
    """The texts that have no whole translation."""
    return [str(message.id) for message in catalog if message.id and (message.fuzzy or not _whole(message.string))]


def _whole(string: object) -> bool:
    return all(string) if isinstance(string, (tuple, list)) else bool(string)


def write(language: str) -> list[str]:
    """Write both files; returns what is still to be translated."""
    catalog = in_step(catalogue(language))
    place(language, "po").parent.mkdir(parents=True, exist_ok=True)
    with place(language, "po").open("wb") as file:
        write_po(file, catalog, width=120, omit_header=False, include_previous=False)
    place(language, "mo").write_bytes(compiled(catalog))
    return untranslated(catalog)


def main(arguments: list[str]) -> int:
    """Say, or write."""
    writes = arguments == ["--write"]
    for language in LANGUAGES:
        missing = write(language) if writes else untranslated(in_step(catalogue(language)))
        sys.stdout.write("".join(f"{language}: {text}\n" for text in missing))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
