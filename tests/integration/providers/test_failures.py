"""What goes wrong at a provider, and what is said about it."""

from __future__ import annotations

import logging
import socket
from typing import Any

import pytest

from allm_django.errors import ProviderError, StreamBrokenError
from allm_django.providers.assembly import Assembly
from allm_django.providers.base import Model
from tests.integration.providers.reading import KEY, model_at, read, request
from tests.integration.providers.server import (
    DROP,
    HANG,
    Reply,
    Server,
    chat,
    chat_call,
    chat_text,
    claude,
    gemini,
    refusal,
    sse,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

CLAUDE_START = claude(({"type": "text", "text": ""}, [{"type": "text_delta", "text": "Hel"}]))[:3]
BEGUN = {
    "openai": sse(chat({"content": "Hel"}), chat_call('{"q": ', name="look", id="a")),
    "compatible": sse(chat({"content": "Hel"})),
    "anthropic": CLAUDE_START,
    "google": sse(gemini({"text": "Hel"})),
}
STREAM_ERRORS = {
    "openai": sse({"error": {"message": "Too busy.", "type": "server_error", "code": None}}),
    "compatible": sse({"error": {"message": "Too busy.", "code": 503}}),
    "anthropic": sse({"type": "error", "error": {"type": "overloaded_error", "message": "Too busy."}}),
    "google": sse({"error": {"code": 503, "message": "Too busy.", "status": "UNAVAILABLE"}}),
}
KINDS = list(BEGUN)


def error_body(kind: str, message: str) -> dict[str, Any]:
    if kind == "google":
        return {"error": {"code": 0, "message": message, "status": "UNKNOWN"}}
    return {"type": "error", "error": {"type": "some_error", "message": message}}


async def failure(model: Model, **asked: Any) -> ProviderError:
    with pytest.raises(ProviderError) as caught:
        await read(model, request(**asked))
    return caught.value


async def partial(model: Model) -> tuple[Assembly, ProviderError]:
    assembly = Assembly()

    async def fold() -> None:
        async for delta in model.stream(request()):
            assembly.add(delta)

    with pytest.raises(ProviderError) as caught:
        await fold()
    return assembly, caught.value


@pytest.mark.row("L14")
@pytest.mark.parametrize("kind", [*KINDS, "openai-responses"])
@pytest.mark.parametrize(
    ("status", "retryable"),
    [(400, False), (401, False), (403, False), (404, False), (408, True), (429, True), (500, True), (503, True)],
)
async def test_a_status_says_whether_to_try_again_and_is_tried_once(
    server: Server, kind: str, status: int, retryable: bool
) -> None:
    server.answer(refusal(status, error_body(kind, "Sorry, no."), retry_after="7"))
    error = await failure(model_at(server, kind))
    assert (error.status, error.retryable, type(error)) == (status, retryable, ProviderError)
    assert error.retry_after == 7
    assert "Sorry, no." in error.message
    assert f"status {status}" in error.message
    assert len(server.seen) == 1


async def test_a_used_up_quota_is_not_tried_again(server: Server) -> None:
    body = {"error": {"message": "Pay first.", "type": "insufficient_quota", "code": "insufficient_quota"}}
    server.answer(refusal(429, body))
    error = await failure(model_at(server, "openai"))
    assert (error.status, error.retryable) == (429, False)
    assert "quota" in error.message


async def test_an_error_page_is_not_echoed(server: Server) -> None:
    server.answer(Reply([b"<html>" + b"internal " * 200], 502, {"content-type": "text/html"}))
    error = await failure(model_at(server, "compatible"))
    assert (error.status, error.retryable) == (502, True)
    assert "internal" not in error.message


async def test_a_long_message_of_the_provider_is_cut(server: Server) -> None:
    server.answer(refusal(400, error_body("openai", "word " * 1000)))
    error = await failure(model_at(server, "openai"))
    assert len(error.message) < 300
    assert len(error.detail) < 1200


@pytest.mark.row("L14")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_dropped_connection_breaks_the_stream_after_its_text(server: Server, kind: str) -> None:
    server.answer([*BEGUN[kind], DROP])
    assembly, error = await partial(model_at(server, kind))
    assert isinstance(error, StreamBrokenError)
    assert (assembly.text, assembly.finished, error.retryable) == ("Hel", None, False)


@pytest.mark.row("L14")
@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_in_mid_stream_breaks_it_after_its_text(server: Server, kind: str) -> None:
    server.answer([*BEGUN[kind], *STREAM_ERRORS[kind]])
    assembly, error = await partial(model_at(server, kind))
    assert isinstance(error, StreamBrokenError)
    assert (assembly.text, error.retryable) == ("Hel", False)
    assert "Too busy." in error.message + error.detail


@pytest.mark.row("L14")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("body", [[DROP], []])
async def test_a_stream_that_ends_before_its_first_delta_may_be_tried_again(
    server: Server, kind: str, body: list[Any]
) -> None:
    server.answer(body)
    error = await failure(model_at(server, kind))
    assert error.retryable


@pytest.mark.parametrize("kind", KINDS)
async def test_an_error_before_the_first_delta_may_be_tried_again(server: Server, kind: str) -> None:
    server.answer(STREAM_ERRORS[kind])
    error = await failure(model_at(server, kind))
    assert error.retryable
    assert "Too busy." in error.message


@pytest.mark.parametrize("kind", KINDS)
async def test_nonsense_is_an_error_and_not_a_traceback(server: Server, kind: str) -> None:
    server.answer([b"data: {nonsense\n\n"])
    error = await failure(model_at(server, kind))
    assert error.__cause__ is None


@pytest.mark.row("L14")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_provider_that_stalls_is_given_up_on(server: Server, kind: str) -> None:
    server.answer([HANG])
    error = await failure(model_at(server, kind), params={"timeout": 0.1})
    assert error.retryable
    assert "in time" in error.message


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stall_in_mid_stream_breaks_it(server: Server, kind: str) -> None:
    server.answer([*BEGUN[kind], HANG])
    model = model_at(server, kind)
    with pytest.raises(StreamBrokenError):
        await read(model, request(params={"timeout": 0.1}))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_host_that_cannot_be_reached_may_be_tried_again(server: Server, kind: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
        error = await failure(model_at(server, kind, base_url=url))
    assert (error.status, error.retryable) == (None, True)
    assert "could not be reached" in error.message


@pytest.mark.row("L17")
@pytest.mark.parametrize(
    ("kind", "variable"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("openai-responses", "OPENAI_API_KEY"),
        ("anthropic", "ANTHROPIC_API_KEY"),
        ("google", "GOOGLE_API_KEY"),
    ],
)
async def test_a_missing_key_names_its_variable_when_the_stream_starts(
    server: Server, monkeypatch: pytest.MonkeyPatch, kind: str, variable: str
) -> None:
    monkeypatch.delenv(variable, raising=False)
    error = await failure(model_at(server, kind, keys=None))
    assert variable in error.message
    assert not error.retryable
    other = await failure(model_at(server, kind, keys={}, api_key_env="MY_KEY"))
    assert "MY_KEY" in other.message
    assert server.seen == []


@pytest.mark.row("L17")
async def test_an_explicit_key_goes_before_the_environments(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    monkeypatch.setenv("MY_KEY", "sk-mine")
    server.answer(chat_text("Hi"))
    for options in ({}, {"keys": None}, {"keys": None, "api_key_env": "MY_KEY"}):
        await read(model_at(server, "openai", **options))
    assert [seen.headers["authorization"] for seen in server.seen] == (
        [f"Bearer {KEY}", "Bearer sk-environment", "Bearer sk-mine"]
    )


@pytest.mark.row("L17")
async def test_a_compatible_server_gets_no_key_that_is_not_meant_for_it(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    monkeypatch.delenv("ALLM_API_KEY", raising=False)
    server.answer(chat_text("Hi"))
    await read(model_at(server, "compatible", keys=None))
    assert "sk-environment" not in str(server.seen[0].headers)


@pytest.mark.row("L17")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("key", [KEY, "plain7secret"])
async def test_a_key_is_in_no_error_and_no_log(
    server: Server, caplog: pytest.LogCaptureFixture, kind: str, key: str
) -> None:
    caplog.set_level(logging.DEBUG)
    echo = error_body(kind, f"Wrong key {key} (Bearer {key})")
    server.answer(refusal(401, echo), [*BEGUN[kind], DROP])
    for _ in range(2):
        error = await failure(model_at(server, kind, keys={kind: key}))
        shown = f"{error!r} {error.message} {error.detail} {error.info} {error.__cause__!r}"
        assert key not in shown
        assert error.__suppress_context__
    assert key not in caplog.text
