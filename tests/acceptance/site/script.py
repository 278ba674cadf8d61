"""A model that follows the first word of the last message. It keeps nothing, so that it goes on after a restart."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from allm_django.core.types import ModelRequest, Usage
from allm_django.errors import ConfigurationError
from allm_django.providers.base import Delta
from allm_django.providers.scripted import hold
from allm_django.testing import ScriptedModel, call, fail, say
from project.settings import VAR
from tests.acceptance.site.gate import Gate
from tests.acceptance.site.payloads import PAYLOADS, XSS

LONG = [f"Paragraph {n} of a long answer, with *marks* and `code`." for n in range(1, 61)]
MARKDOWN = """## Found

| Item | Count |
|---|---|
| Cup | 2 |

```python
def f():
    return 1
```

See [the shop](https://shop.example/).
"""


def told(request: ModelRequest) -> object:
    """The last answer: what the model was told about its calls."""
    results = [message.content for message in request.messages if message.role == "tool"]
    return say("I was told: " + " | ".join(results[-2:]))


def slow(request: ModelRequest) -> object:
    """The long answer, which stops in its midst until the gate named in the message opens."""
    gate = Gate(VAR, request.messages[-1].content.split()[1])
    return [say("\n\n".join(LONG[:40]) + "\n\n"), hold(gate), say("\n\n".join(LONG[40:]))]  # type: ignore[arg-type]


SCENES: dict[str, list[object]] = {
    "hello": [say("Hello. How can I help?")],
    "lookup": [[say("Let me look."), call("look_up", {"order_id": "1042"})], say("Order 1042 is *sent*.")],
    "long": [call("look_up", {"order_id": "long"}), say("There are 400 parcels.")],
    "refund": [[say("I would refund it."), call("refund", {"order_id": "1042", "amount": 49.5})], told],
    "notify": [call("notify", {"text": "Hello."}), call("notify", {"text": "Hello."}), say("Done.")],
    "payout": [[say("That takes two of you."), call("pay_out", {"amount": 500.0})], told],
    "both": [
        [call("refund", {"order_id": "1", "amount": 10.0}), call("notify", {"text": "Sorry,\nit was late."})],
        told,
    ],
    "everything": [
        [say("Let me look."), call("look_up", {"order_id": "1"})],
        [
            say(MARKDOWN),
            call("refund", {"order_id": "1", "amount": 10.0}),
            call("notify", {"text": "Sorry,\nit was late."}),
        ],
        told,
    ],
    "shirt": [call("shirt", {}), told],
    "report": [lambda request: call("make_report", {"gate": request.messages[-1].content.split()[1]}), told],
    "case": [lambda request: call("wind_up", {"gate": request.messages[-1].content.split()[1]}), told],
    "many": [*[call("look_up", {"order_id": str(n)}) for n in range(52)], say("That was all.")],
    "markdown": [say(MARKDOWN)],
    "slow": [slow],
    "broken": [fail(status=400)],
    "evil": [
        [
            say("\n\n".join(PAYLOADS)),
            call("notify", {"text": f"{XSS} pay\u202etxt.exe {{{{ value }}}}"}),
            call("notify", {"text": "x", XSS: XSS}),
        ],
        say("Done."),
    ],
}


class Script:
    """The scripted model of the site."""

    id = "script:scenes"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """The entry for this turn of the last message's scene."""
        last = max(n for n, message in enumerate(request.messages) if message.role == "user")
        word = (request.messages[last].content.split() or ["hello"])[0].lower()
        turn = sum(message.role == "assistant" for message in request.messages[last:])
        scene = SCENES.get(word, SCENES["hello"])
        entry = scene[min(turn, len(scene) - 1)]
        usage = Usage(input_tokens=1200, output_tokens=34)
        model = ScriptedModel([entry], chunk_size=40, usage=usage)  # type: ignore[list-item]
        async for delta in model.stream(request):
            yield delta


def model(name: str) -> Script:
    """The one model there is."""
    if name != "scenes":
        raise ConfigurationError(f"script:{name}: there is only script:scenes.")
    return Script()
