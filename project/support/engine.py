"""Which model the demo runs on: a real one if the environment has a key, else the scripted planner."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass

from django.core.exceptions import ImproperlyConfigured

from allm_django.models import Engine
from allm_django.store.engines import save_engine
from project.support.planner import NOTICE

NAME = "support"
SYSTEM = """You work at the support desk of a small shop for tableware and tea. Help the desk's agents.
Look things up with your tools before you answer; never guess an order's state. Some calls wait for a person:
if one is rejected or changed, say so and do not try it again unless you are asked to. Answer briefly."""
EXAMPLES = [
    "Where is order 1042?",
    "Refund 49 euros on order 1042, the cup was broken",
    "E-mail the customer of order 1042 that we are sorry for the delay, and refund 10 euros",
    "Close the case of order 1042 with 24.50 euros, a cup was broken",
    "When should order 1051 be delivered?",
    "Make the weekly report",
]
KEYS = {  # variable with the key: prefix of the model id, a small current model
    "OPENAI_API_KEY": ("openai", "gpt-5-mini"),
    "ANTHROPIC_API_KEY": ("anthropic", "claude-haiku-4-5"),
    "GOOGLE_API_KEY": ("google", "gemini-2.5-flash"),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """The fields of the engine's row that follow the environment."""

    model: str
    notice: str = ""
    base_url: str = ""
    api_key_env: str = ""


def choose(environment: Mapping[str, str]) -> Choice:
    """The model that ``environment`` speaks of. Raises ImproperlyConfigured for half a statement."""
    model, url = environment.get("ALLM_MODEL", ""), environment.get("ALLM_BASE_URL", "")
    if url:
        if not model:
            raise ImproperlyConfigured("ALLM_BASE_URL is set but ALLM_MODEL is not: name a model that it serves.")
        key = "ALLM_API_KEY" if environment.get("ALLM_API_KEY") else ""
        return Choice(f"compatible:{model}", base_url=url, api_key_env=key)
    for variable, (prefix, small) in KEYS.items():
        if environment.get(variable):
            return Choice(f"{prefix}:{model or small}", api_key_env=variable)
    if model:
        raise ImproperlyConfigured(f"ALLM_MODEL is set, but neither ALLM_BASE_URL nor one of {', '.join(KEYS)}.")
    return Choice("planner:support", notice=NOTICE)


def set_up(environment: Mapping[str, str]) -> Engine:
    """Make the demo's engine, or let the one there follow the environment; all else in its row stays as it is.

    Raises InvalidInputError for a model id or base URL that can't be.
    """
    engine = Engine.objects.filter(name=NAME).first() or Engine(
        name=NAME,
        title="Support desk",
        description="Looks up orders, refunds, writes to customers, plans deliveries.",
        system=SYSTEM,
        examples=EXAMPLES,
    )
    for field, value in asdict(choose(environment)).items():
        setattr(engine, field, value)
    return save_engine(engine)
