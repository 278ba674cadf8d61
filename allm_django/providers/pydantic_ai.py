"""The one adapter for every real provider: pydantic-ai's model classes, never its agent.

Importing this module imports no provider library; the first stream does, in a thread.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from types import ModuleType

from allm_django.core.types import ModelRequest
from allm_django.errors import MissingExtraError, ProviderError
from allm_django.providers.base import Delta, TextDelta
from allm_django.providers.params import check_params

BRIDGE = "allm_django.providers.bridge"


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of provider: where its builder is, what it needs to be installed, where its key is found."""

    provider: str
    key_name: str
    builder: str  # "module:function" in this package
    extra: str
    libraries: tuple[str, ...]
    key_env: str
    needs_key: bool = True
    needs_base_url: bool = False


class PydanticAIModel:
    """A model of a real provider.

    ``find_key`` gives the key or "" and is asked at the start of each stream, so a rotated key is found; the
    object itself shows it nowhere. Errors are those of :class:`~allm_django.providers.base.Model`.
    """

    def __init__(
        self, id: str, kind: Kind, *, find_key: Callable[[], str], key_env: str = "", base_url: str | None = None
    ) -> None:
        self.id = id
        self._kind = kind
        self._name = id.partition(":")[2]
        self._find_key = find_key
        self._key_env = key_env or kind.key_env
        self._base_url = base_url

    def __repr__(self) -> str:
        return f"<PydanticAIModel {self.id}>"

    async def stream(self, request: ModelRequest) -> AsyncGenerator[Delta, None]:
        """Stream one answer. Nothing is sent before the first delta is asked for."""
        check_params(request.params)
        self._check_key()
        bridge = await self._load_bridge()
        kind, started = self._kind, False
        try:
            model = await bridge.usable_model(kind.builder, self._name, self._find_key(), self._base_url)
            async with bridge.open_stream(model, request, kind.provider) as events:
                reader = bridge.Reader()
                async for event in events:
                    delta = reader.delta(event)
                    if delta is not None:
                        started = True
                        yield delta
                finished = bridge.finish(events, kind.provider, self._name)
        except Exception as error:
            # not chained: the original holds the request with its headers
            raise bridge.to_error(error, kind.provider, self._find_key(), started=started) from None
        if finished.text and not started:  # a refusal, which comes beside the answer
            yield TextDelta(finished.text)
        yield finished

    def _check_key(self) -> None:
        if self._kind.needs_key and not self._find_key():
            raise ProviderError(
                f"There is no key for {self._kind.provider}. Set the environment variable {self._key_env}."
            )

    async def _load_bridge(self) -> ModuleType:
        try:
            return _loaded[BRIDGE] if BRIDGE in _loaded else await asyncio.to_thread(_load_bridge)
        except ImportError as error:
            raise missing_extra(self._kind, self.id) from error


_loaded: dict[str, ModuleType] = {}  # not sys.modules: there a module is found before it is complete


def _load_bridge() -> ModuleType:
    """Import the library: a second or more the first time, so in a thread."""
    return _loaded.setdefault(BRIDGE, importlib.import_module(BRIDGE))


def missing_extra(kind: Kind, id: str) -> MissingExtraError:
    """The error that says what to install."""
    return MissingExtraError(
        f'model {id!r}: an optional dependency is missing; pip install "allm-django[{kind.extra}]"'
    )
