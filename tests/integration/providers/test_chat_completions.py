"""OpenAI's chat completions, from OpenAI (``openai:``) and from others (``compatible:``)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from allm_django.core.types import Message, ToolCall, Usage
from allm_django.errors import InvalidInputError, StreamBrokenError
from allm_django.providers.base import RawCall
from tests.integration.providers.reading import LOOK, model_at, read, request, result, said
from tests.integration.providers.server import Server, chat, chat_call, chat_text, sse

pytestmark = pytest.mark.asyncio(loop_scope="module")

USAGE = {
    "prompt_tokens": 50,
    "completion_tokens": 30,
    "total_tokens": 80,
    "prompt_tokens_details": {"cached_tokens": 20},
    "completion_tokens_details": {"reasoning_tokens": 10},
}


@pytest.fixture(params=["openai", "compatible"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def call_answer(*chunks: dict[str, Any]) -> list[bytes]:
    return sse(chat({"role": "assistant", "content": None}), *chunks, chat({}, "tool_calls"), done=True)


@pytest.mark.row("L09")
async def test_text_comes_with_its_finish_reason_and_the_usage_of_the_last_chunk(server: Server, kind: str) -> None:
    server.answer(chat_text("Hel", "lo", **USAGE))
    end = await read(model_at(server, kind))
    assert (end.text, end.calls, end.finish_reason) == ("Hello", (), "stop")
    cost = end.usage.cost
    assert end.usage == Usage(50, 30, 20, 10, cost)
    assert (cost is not None and cost > 0) if kind == "openai" else cost is None
    assert end.dump is not None
    assert (end.dump["provider"], end.dump["model"]) == (kind, {"openai": "gpt-4o"}.get(kind, "local"))
    assert json.loads(json.dumps(end.dump)) == end.dump


@pytest.mark.row("L09")
async def test_without_a_price_list_the_cost_is_unknown_and_the_other_figures_stand(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: Any, **__: Any) -> None:
        raise ImportError("genai_prices")

    monkeypatch.setattr("pydantic_ai.messages.calculate_price_for_usage", gone)
    server.answer(chat_text("Hello", **USAGE))
    assert (await read(model_at(server, "openai"))).usage == Usage(50, 30, 20, 10, None)


@pytest.mark.row("L09")
async def test_usage_that_was_not_told_is_unknown(server: Server, kind: str) -> None:
    server.answer(chat_text("Hi"))
    assert (await read(model_at(server, kind))).usage == Usage()


@pytest.mark.row("L09")
async def test_usage_without_details_leaves_them_unknown(server: Server, kind: str) -> None:
    server.answer(chat_text("Hi", prompt_tokens=5, completion_tokens=3, total_tokens=8))
    usage = (await read(model_at(server, kind))).usage
    assert (usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.reasoning_tokens) == (5, 3, None, None)


async def test_parallel_calls_split_at_odd_places(server: Server, kind: str) -> None:
    server.answer(
        call_answer(
            chat_call("", name="look", id="a", index=0),
            chat_call('{"q', index=0),
            chat_call("", name="look", id="b", index=1),
            chat_call('": "x\\', index=0),
            chat_call('{"q": ', index=1),
            chat_call('u00e9"}', index=0),
            chat_call('"y"}', index=1),
        )
    )
    end = await read(model_at(server, kind))
    assert end.calls == (RawCall("a", "look", '{"q": "x\\u00e9"}'), RawCall("b", "look", '{"q": "y"}'))
    assert end.finish_reason == "tool_calls"


@pytest.mark.parametrize("arguments", ["", '{"q": ', "not JSON", "[1, 2]", '{"q": "x"} and more'])
async def test_arguments_are_kept_as_the_model_wrote_them(server: Server, kind: str, arguments: str) -> None:
    server.answer(call_answer(chat_call(name="look", id="a"), *(chat_call(c) for c in arguments)))
    assert (await read(model_at(server, kind))).calls == (RawCall("a", "look", arguments),)


async def test_calls_that_all_come_at_index_0_are_kept_apart(server: Server, kind: str) -> None:
    server.answer(
        call_answer(
            chat_call('{"q": ', name="look", id="a"),
            chat_call('"x"}'),
            chat_call('{"q": "y"}', name="look", id="b"),
            chat_call("{}", name="save", id="c"),
        )
    )
    assert (await read(model_at(server, kind))).calls == (
        RawCall("a", "look", '{"q": "x"}'),
        RawCall("b", "look", '{"q": "y"}'),
        RawCall("c", "save", "{}"),
    )


async def test_calls_without_ids_at_index_0_are_kept_apart(server: Server, kind: str) -> None:
    server.answer(
        call_answer(
            chat_call('{"q": "x"}', name="look"),
            chat_call('{"q": "y"}', name="look"),
            chat_call("{}", name="save"),
        )
    )
    calls = (await read(model_at(server, kind))).calls
    assert [(c.name, c.arguments) for c in calls] == [("look", '{"q": "x"}'), ("look", '{"q": "y"}'), ("save", "{}")]
    assert len({c.id for c in calls}) == 3


async def test_a_name_and_an_id_repeated_in_every_chunk_are_one_call(server: Server, kind: str) -> None:
    server.answer(
        call_answer(
            chat_call('{"q"', name="look", id="a"),
            chat_call(': "x', name="look", id="a"),
            chat_call('"}', name="look", id="a"),
        )
    )
    assert (await read(model_at(server, kind))).calls == (RawCall("a", "look", '{"q": "x"}'),)


async def test_a_name_repeated_without_ids_is_one_call(server: Server, kind: str) -> None:
    server.answer(call_answer(chat_call('{"q"', name="look"), chat_call(': "x"}', name="look")))
    (call,) = (await read(model_at(server, kind))).calls
    assert (call.name, call.arguments) == ("look", '{"q": "x"}')


async def test_an_id_that_changes_without_a_name_is_still_the_same_call(server: Server, kind: str) -> None:
    server.answer(call_answer(chat_call("{", name="look", id="a"), chat_call("}", id="b")))
    assert (await read(model_at(server, kind))).calls == (RawCall("a", "look", "{}"),)


async def test_two_calls_of_one_id_are_both_given(server: Server, kind: str) -> None:
    server.answer(call_answer(chat_call("{}", name="save", id="a"), chat_call("{}", name="look", id="a", index=1)))
    assert [(c.id, c.name) for c in (await read(model_at(server, kind))).calls] == [("a", "save"), ("a", "look")]


@pytest.mark.row("T21")
async def test_calls_cut_short_by_the_token_limit_say_so(server: Server, kind: str) -> None:
    server.answer(sse(chat_call('{"q": "lo', name="look", id="a"), chat({}, "length"), done=True))
    end = await read(model_at(server, kind))
    assert (end.finish_reason, end.calls[0].arguments) == ("length", '{"q": "lo')


async def test_reasoning_is_thinking(server: Server, kind: str) -> None:
    server.answer(sse(chat({"reasoning_content": "hm"}), chat({"content": "Hi"}), chat({}, "stop"), done=True))
    end = await read(model_at(server, kind))
    assert (end.thinking, end.text) == ("hm", "Hi")


async def test_a_refusal_is_the_text(server: Server, kind: str) -> None:
    server.answer(sse(chat({"refusal": "I can"}), chat({"refusal": "not."}), chat({}, "stop"), done=True))
    end = await read(model_at(server, kind))
    assert (end.text, end.calls) == ("I cannot.", ())


@pytest.mark.row("L14")
@pytest.mark.parametrize("done", [True, False])
async def test_an_answer_without_finish_reason_is_broken_off(server: Server, kind: str, done: bool) -> None:
    server.answer(sse(chat({"content": "Hel"}), chat_call("{}", name="save", id="a"), done=done))
    with pytest.raises(StreamBrokenError) as caught:
        await read(model_at(server, kind))
    assert not caught.value.retryable


async def test_the_request_says_all_and_leaves_schemas_alone(server: Server) -> None:
    server.answer(chat_text("Hi"))
    params = {"temperature": 0, "max_tokens": 9, "stop": "END", "seed": 3, "top_p": 0.5, "parallel_tool_calls": False}
    asked = request(
        Message("system", "First."),
        Message("user", "hi"),
        Message("assistant", "Yes?", (ToolCall("1", "look", {"q": "ü"}, '{"q": "ü"}'), ToolCall("2", "save", {}))),
        result("1", "found"),
        result("2", "No.", is_error=True),
        Message("system", "Be brief."),
        Message("user", "go on"),
        system="Rules.",
        params=params,
    )
    await read(model_at(server, "compatible"), asked)
    sent = server.seen[0].json
    assert [m["role"] for m in sent["messages"]] == (
        ["system", "system", "user", "assistant", "tool", "tool", "system", "user"]
    )
    assistant, first, second = sent["messages"][3:6]
    replayed = [
        (c["id"], c["function"]["name"], json.loads(c["function"]["arguments"])) for c in assistant["tool_calls"]
    ]
    assert replayed == [("1", "look", {"q": "ü"}), ("2", "save", {})]
    assert (first["tool_call_id"], first["content"], second["tool_call_id"]) == ("1", "found", "2")
    assert "No." in second["content"]
    offered = sent["tools"][0]["function"]
    assert offered["parameters"] == LOOK.schema
    assert not offered.get("strict")
    assert {k: sent[k] for k in ("temperature", "max_tokens", "stop", "seed", "top_p", "parallel_tool_calls")} == (
        {**params, "stop": ["END"]}
    )
    assert sent["stream_options"] == {"include_usage": True}


@pytest.mark.row("T23")
@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("save", {"type": "function", "function": {"name": "save"}}),
    ],
)
async def test_the_tool_choice_is_passed_on(server: Server, kind: str, choice: str, sent: Any) -> None:
    server.answer(chat_text("Hi"))
    await read(model_at(server, kind), request(tool_choice=choice))
    assert server.seen[0].json["tool_choice"] == sent


async def test_a_choice_that_cannot_be_kept_is_refused_before_anything_is_sent(server: Server, kind: str) -> None:
    model = model_at(server, kind)
    for asked in (request(tool_choice="delete"), request(tools=(), tool_choice="required")):
        with pytest.raises(InvalidInputError) as caught:
            await read(model, asked)
        assert caught.value.field == "tool_choice"
    assert server.seen == []


@pytest.mark.parametrize("params", [{"temprature": 1}, {"top_k": 3}])
async def test_parameters_that_are_not_known_there_are_refused(
    server: Server, kind: str, params: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        await read(model_at(server, kind), request(params=params))
    assert caught.value.field == f"params.{next(iter(params))}"
    assert server.seen == []


async def test_its_own_answer_is_replayed_under_our_call_ids(server: Server, kind: str) -> None:
    server.answer(
        sse(
            chat({"reasoning_content": "hm"}),
            chat({"content": "Wait."}),
            chat_call('{"q": ', name="look", id="same", index=0),
            chat_call("", name="save", id="same", index=1),
            chat({}, "tool_calls"),
            done=True,
        )
    )
    model = model_at(server, kind)
    end = await read(model)
    await read(model, request(Message("user", "hi"), said(end, "x1", "x2"), result("x1", "a"), result("x2", "b")))
    _, assistant, first, second = server.seen[1].json["messages"]
    assert [c["id"] for c in assistant["tool_calls"]] == ["x1", "x2"]
    assert '{"q": ' in json.loads(assistant["tool_calls"][0]["function"]["arguments"])["INVALID_JSON"]
    assert assistant["content"] == "Wait."
    assert assistant["reasoning_content"] == "hm"
    assert [first["tool_call_id"], second["tool_call_id"]] == ["x1", "x2"]


async def test_another_providers_answer_is_told_in_neutral_form_without_its_thinking(server: Server) -> None:
    server.answer(sse(chat({"reasoning_content": "secret"}), chat({"content": "Hi"}), chat({}, "stop"), done=True))
    end = await read(model_at(server, "openai"))
    await read(model_at(server, "compatible"), request(Message("user", "hi"), said(end), Message("user", "go")))
    assert "secret" not in json.dumps(server.seen[1].json)
    assert server.seen[1].json["messages"][1] == {"role": "assistant", "content": "Hi"}


@pytest.mark.parametrize("damage", [{"parts": "?"}, {"parts": [{"part_kind": "tool-call"}]}, {"parts": []}, {}])
async def test_a_damaged_dump_falls_back_to_the_neutral_form(server: Server, kind: str, damage: dict[str, Any]) -> None:
    server.answer(chat_text("Hi"))
    message = Message(
        "assistant", "Yes?", (ToolCall("1", "save", {}, "{}"),), dump={"provider": kind, "message": damage}
    )
    await read(model_at(server, kind), request(Message("user", "hi"), message, result("1", "ok")))
    assistant = server.seen[0].json["messages"][1]
    assert (assistant["content"], assistant["tool_calls"][0]["id"]) == ("Yes?", "1")


@pytest.mark.row("L13")
async def test_the_form_of_an_answer_is_sent_where_it_may_stand_beside_tools(server: Server, kind: str) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    server.answer(chat_text('{"n": 1}'))
    await read(model_at(server, kind), request(tools=(LOOK,), tool_choice="none", response_schema=schema))
    form = server.seen[-1].json.get("response_format")
    if kind == "compatible":
        assert form is None
    else:
        assert (form["type"], form["json_schema"]["schema"]) == ("json_schema", schema)
        assert not form["json_schema"].get("strict")
    assert server.seen[-1].json["tool_choice"] == "none"
