"""The page's files: vendored libraries are what vendor.json says, and every word the scripts use exists."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import allm_django
from allm_django.chat.views import POLICY
from allm_django.chat.words import page_words
from allm_django.core.states import CallState, Outcome

STATIC = Path(allm_django.__file__).parent / "static" / "allm_django"
VENDOR = STATIC / "vendor"
SCRIPTS = sorted((STATIC / "chat").glob("*.js"))
MARKUP = sorted((STATIC.parents[1] / "templates" / "allm_django").glob("*.html"))
LISTED = json.loads((VENDOR / "vendor.json").read_text())


def test_every_vendored_file_is_listed_with_its_hash_and_licence() -> None:
    found = {path.relative_to(VENDOR).as_posix() for path in VENDOR.glob("*/*") if path.name != "LICENSE"}
    assert found == {entry["file"] for entry in LISTED}
    for entry in LISTED:
        path = VENDOR / entry["file"]
        assert hashlib.sha256(path.read_bytes()).hexdigest() == entry["sha256"], entry["name"]
        assert path.with_name("LICENSE").stat().st_size > 500, entry["name"]
        assert entry["licence"]
        assert entry["version"]


def test_no_script_refers_to_a_source_map_or_another_host() -> None:
    for path in [*SCRIPTS, *VENDOR.glob("*/*.js")]:
        assert "sourceMappingURL" not in path.read_text(), path.name
    for path in SCRIPTS:
        assert not re.search(r"from \"(?!\.)|import\(\"(?!\.)|https?://(?!www\.w3\.org)", code_of(path)), path.name


def code_of(path: Path) -> str:
    """A script without its comments and without patterns."""
    return re.sub(r"^\s*(//|/?\*).*$|/\^.*?/[gimsuy]*", "", path.read_text(), flags=re.MULTILINE)


def test_scripts_use_only_words_that_exist_and_no_word_is_left_over() -> None:
    source = "\n".join(path.read_text() for path in SCRIPTS)
    used = set(re.findall(r"\bt\(\"(\w+)\"", source))
    families = tuple(re.findall(r"\bt\(`(\w+_)\$", source)) + tuple(re.findall(r"`(state_|outcome_)\$", source))
    words = set(page_words())
    assert used <= words
    assert {word for word in words if not word.startswith(families)} <= used
    assert all(any(word.startswith(family) for word in words) for family in families)


def test_every_state_and_outcome_of_a_call_has_its_word() -> None:
    words = page_words()
    assert {f"state_{state.value}" for state in CallState if state.value != "settled"} <= set(words)
    assert {f"outcome_{outcome.value}" for outcome in Outcome} <= set(words)


def test_scripts_write_html_in_one_place_only() -> None:
    sinks = re.compile(r"(inner|outer|Adjacent)HTML|document\.write|\beval\(|new Function|\.style\b|ContextualFragment")
    assert [path.name for path in SCRIPTS if sinks.search(code_of(path))] == []
    assert [path.name for path in SCRIPTS if "sanitize(" in code_of(path)] == ["safe.js"]


def test_markup_has_nothing_inline() -> None:
    for path in MARKUP:
        markup = path.read_text()
        assert not re.search(r"\sstyle=|\son\w+=|javascript:|<style|<script(?![^>]*\ssrc=)", markup), path.name


def test_the_policy_allows_nothing_inline_and_nothing_from_elsewhere() -> None:
    rules = dict(rule.split(" ", 1) for rule in POLICY.split("; "))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["object-src"] == rules["base-uri"] == rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in POLICY
    assert "http" not in POLICY
