"""The page and the admin in German: no text of the catalogue is left in English (M08)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html import unescape

import pytest
from django.contrib import admin
from django.test import Client
from django.urls import reverse
from django.utils import translation

from allm_django.chat.words import page_words
from tests import messages
from tests.integration.cast import without_runner
from tests.security.world import World, build

pytestmark = [pytest.mark.django_db, pytest.mark.row("M08")]
HIDDEN = re.compile(r"<(script|style)\b.*?</\1>", re.S)
TAG = re.compile(r"<[^>]*>")


@pytest.fixture
def world() -> Iterator[World]:
    with without_runner(), translation.override("en"):  # a request leaves its language behind
        yield build()


def english() -> list[re.Pattern[str]]:
    """Texts of several words that German has other words for, their places standing for anything."""
    found = []
    for message in messages.catalogue("de"):
        text = message.id[0] if isinstance(message.id, (tuple, list)) else str(message.id)
        if text.count(" ") and text != message.string:
            parts = re.split(r"%\(\w+\)[\d.]*[a-z]|\{\w+\}", text)
            if max(map(len, parts)) > 6:
                found.append(re.compile(r"\b" + r".{1,80}?".join(map(re.escape, parts)) + r"(?!\w)"))
    return found


def addresses(world: World) -> Iterator[str]:
    """Every list, form and row of our admin."""
    for model in admin.site._registry:
        if model._meta.app_label != "allm_django":
            continue
        name = f"admin:allm_django_{model._meta.model_name}"
        yield reverse(f"{name}_changelist")
        if row := world.objects.get(str(model._meta.model_name)):
            yield reverse(f"{name}_change", args=[row.pk])
    yield reverse("admin:allm_django_tool_add")
    yield reverse("admin:allm_django_engine_add")


def test_no_admin_page_shows_english_to_a_german(world: World) -> None:
    browser: Client = world.browsers["superuser"]
    patterns, left = english(), {}
    for address in addresses(world):
        answer = browser.get(address, headers={"Accept-Language": "de"})
        shown = unescape(TAG.sub(" ", HIDDEN.sub(" ", answer.content.decode())))
        if words := [found[0] for pattern in patterns if (found := pattern.search(shown))]:
            left[address] = words
    assert left == {}


def test_the_page_has_german_words_for_its_scripts(world: World) -> None:
    page = world.browsers["superuser"].get("/", headers={"Accept-Language": "de"}).content.decode()
    assert '<html lang="de"' in page
    shown = re.search(r'id="allm-words"[^>]*>(.*?)</script>', page, re.S)
    assert shown is not None
    with translation.override("en"):
        before = page_words()
    same = {key for key, words in json.loads(shown[1]).items() if words == before[key]}
    assert same <= {"seconds", "view_json", "in_time"}
    config = re.search(r'id="allm-config"[^>]*>(.*?)</script>', page, re.S)
    assert config is not None
    assert json.loads(config[1])["spoken"]["Stopped."] == "Angehalten."
