"""Every text that people see can be translated, and the German catalogue is whole and compiled (M08)."""

from __future__ import annotations

import ast
import io
import re
from gettext import GNUTranslations

import pytest
from babel.messages.catalog import Catalog
from django.utils import translation

from allm_django.present.spoken import SPOKEN, said, spoken
from tests import messages

PLACE = re.compile(r"%\(\w+\)[a-z.\d]*[a-z]|\{\w+\}|<kbd>")
COMMENTS = re.compile(r"\{#.*?#\}|\{% comment.*?endcomment %\}|<!--.*?-->", re.S)
BLOCKS = re.compile(r"\{% blocktrans.*?endblocktrans\w* %\}|\{% block bodyclass %\}.*?\{% endblock.*?%\}", re.S)
MARKUP = re.compile(r"\{[%{].*?[%}]\}|<!?\w[^<>]*>|</\w+>|&\w+;", re.S)
SHOWN = re.compile(r"\b(?:title|aria-label|placeholder|alt|data-one|data-many)=\"([^\"]*)\"")
WORD = re.compile(r"[A-Za-z]{2,}")


@pytest.fixture(scope="module", params=messages.LANGUAGES)
def language(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def catalog(language: str) -> Catalog:
    return messages.catalogue(language)


def test_every_text_is_translated_and_no_old_one_is_left(catalog: Catalog) -> None:
    """Else: python -m tests.messages --write, and fill in what it names."""
    wanted = {(text.text, text.context) for text in messages.texts()}
    there = {(_first(message.id), message.context or "") for message in catalog if message.id}
    assert (sorted(wanted - there), sorted(there - wanted)) == ([], [])
    assert messages.untranslated(catalog) == []


def test_a_translation_has_the_places_of_its_text(catalog: Catalog) -> None:
    wrong = []
    for message in catalog:
        strings = message.string if isinstance(message.string, (tuple, list)) else [message.string]
        wrong += [
            s for s in strings if message.id and sorted(PLACE.findall(s)) != sorted(PLACE.findall(_first(message.id)))
        ]
    assert wrong == []


def test_the_compiled_catalogue_is_fresh(catalog: Catalog, language: str) -> None:
    """Else: python -m tests.messages --write."""
    there = GNUTranslations(io.BytesIO(messages.place(language, "mo").read_bytes()))
    fresh = GNUTranslations(io.BytesIO(messages.compiled(catalog)))
    assert vars(there)["_catalog"] == vars(fresh)["_catalog"]


@pytest.mark.parametrize(
    "path", sorted(messages.PACKAGE.rglob("templates/**/*.html")), ids=lambda path: path.parent.name + "/" + path.name
)
def test_a_template_shows_no_text_that_is_not_marked(path: object) -> None:
    source = BLOCKS.sub("", COMMENTS.sub("", path.read_text()))  # type: ignore[attr-defined]
    shown = [MARKUP.sub(" ", source), *(MARKUP.sub(" ", value) for value in SHOWN.findall(source))]
    assert [word for text in shown for word in WORD.findall(text)] == []


def _first(id: object) -> str:
    return str(id[0]) if isinstance(id, (tuple, list)) else str(id)


def test_what_is_translated_for_people_is_still_said_by_the_code() -> None:
    said = [
        node.value
        for path in messages.PACKAGE.rglob("*.py")
        if path.name != "spoken.py"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    parts = [part.strip() for text in SPOKEN for part in re.split(r"\{\w+\}|who may", text) if len(part.strip()) > 5]
    assert [part for part in parts if not any(part[:24] in text for text in said)] == []


def test_texts_are_said_in_the_language_of_the_request_with_what_stands_in_them() -> None:
    with translation.override("de"):
        assert said("this tool always asks first") == spoken()["this tool always asks first"] != SPOKEN[0]
        assert said("step “Pay”: this tool always asks first").startswith("Schritt „Pay“: ")
        assert said("Something that nobody listed.") == "Something that nobody listed."
    with translation.override("en"):
        assert spoken() == {}
