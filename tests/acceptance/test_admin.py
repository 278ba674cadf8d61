"""The admin of tools in a browser, under a strict policy: the schema's live form, a tool tried (M02, M03)."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Route, expect

from tests.acceptance.conftest import Visit, Visitor

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'"
LINE = {"type": "object", "properties": {"n": {"type": "integer"}}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "order_id": {"type": "string", "title": "The order"},
        "size": {"enum": ["S", "M"], "title": "Size"},
        "lines": {
            "type": "array",
            "title": "Line",
            "items": {"type": "object", "properties": {"n": {"type": "integer"}}},
        },
    },
    "required": ["order_id"],
}


def under_policy(visitor: Visitor) -> None:
    """Nothing inline and nothing from elsewhere on the admin's pages."""

    def guard(route: Route) -> None:
        response = route.fetch(max_redirects=0)
        route.fulfill(response=response, headers={**response.headers, "content-security-policy": POLICY})

    visitor.page.route("**/admin/allm_django/tool/**", guard)


def test_the_schema_s_form_follows_what_is_typed_and_the_tool_can_be_tried(visit: Visit) -> None:
    ada = visit("ada")
    under_policy(ada)
    ada.page.goto(f"{ada.site.address}/admin/allm_django/tool/?q=look_up")
    ada.page.get_by_role("link", name="look_up").click()
    preview = ada.page.get_by_role("region", name="What a person would fill in")
    expect(preview.get_by_role("status")).to_have_text("The schema is accepted.")
    expect(preview.get_by_label("order_id")).to_be_visible()

    ada.page.fill("#id_schema", json.dumps(SCHEMA, indent=1))
    expect(preview.get_by_label("The order")).to_be_visible()
    expect(preview.get_by_label("Size")).to_have_value("S")
    ada.page.fill("#id_schema", json.dumps(SCHEMA, indent=1).replace('"S",', '"S"'))
    expect(preview.get_by_role("status")).to_contain_text("not valid JSON yet")
    ada.page.fill("#id_schema", json.dumps(SCHEMA, indent=1).replace('"string"', '"txt"'))
    expect(preview.get_by_role("status")).to_contain_text("At /properties/order_id/type:")
    preview.get_by_role("button", name="Show the place").click()
    selected = "e => e.value.slice(e.selectionStart, e.selectionEnd)"
    assert ada.find("#id_schema").evaluate(selected) == '"type"'
    ada.page.fill("#id_schema", json.dumps(SCHEMA, indent=1))
    expect(preview.get_by_role("status")).to_have_text("The schema is accepted.")

    ada.page.get_by_role("link", name="Try it").click()
    form = ada.find("[data-allm-form]")
    form.get_by_role("textbox").fill("1042")
    form.get_by_role("textbox").blur()
    ada.page.get_by_role("button", name="Run it").click()
    expect(ada.page.get_by_role("status")).to_contain_text('{"order":"1042","state":"sent"}')
    assert json.loads(ada.find("#id_arguments").input_value()) == {"order_id": "1042"}
