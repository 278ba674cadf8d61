"""What a page does with the API's first answer and the frames that follow: the contract's fold, in a few lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

JSON = dict[str, Any]


class Fold:
    """A session as a page holds it: upsert by id, drop what is known, append text at its place."""

    def __init__(self, detail: JSON) -> None:
        self.number: int = detail["event"]
        self.session: JSON = dict(detail["session"])
        self.messages: dict[str, JSON] = {row["id"]: row for row in detail["messages"]}
        self.calls: dict[str, JSON] = {row["id"]: row for row in detail["calls"]}

    @classmethod
    def empty(cls) -> Fold:
        """A page that knows nothing yet."""
        return cls({"event": 0, "session": {}, "messages": [], "calls": []})

    def apply(self, frame: JSON) -> None:
        """Take one frame. Raises AssertionError for a gap: the server must not leave one."""
        if frame["type"] == "event":
            self._event(frame)
        elif frame["type"] == "text":
            self._text(frame)

    def apply_all(self, frames: Iterable[JSON]) -> Fold:
        """Take frames in order."""
        for frame in frames:
            self.apply(frame)
        return self

    def _event(self, frame: JSON) -> None:
        if frame["n"] <= self.number:
            return
        assert frame["n"] == self.number + 1, f"event {frame['n']} after {self.number}"
        self.number = frame["n"]
        self.session |= frame["session"]
        for rows, known in ((frame["messages"], self.messages), (frame["calls"], self.calls)):
            for row in rows:
                known[row["id"]] = known.get(row["id"], {}) | row

    def _text(self, frame: JSON) -> None:
        message = self.messages[frame["message"]]
        missing = len(message["text"]) - frame["offset"]
        assert missing >= 0, f"text at {frame['offset']} after {len(message['text'])}"
        message["text"] += frame["text"][missing:]


def differences(fold: Fold, detail: JSON) -> list[str]:
    """Where a folded session is not what a fresh load shows. Cards' parts that depend on the viewer are left out."""
    found = [
        f"session.{name}: {value!r}, but {detail['session'][name]!r}"
        for name, value in fold.session.items()
        if name not in ("can", "updated_at", "event") and detail["session"][name] != value
    ]
    for kind, rows in (("messages", fold.messages), ("calls", fold.calls)):
        fresh = {row["id"]: row for row in detail[kind]}
        if set(fresh) != set(rows):
            found.append(f"{kind}: {sorted(rows)}, but {sorted(fresh)}")
        for key in set(fresh) & set(rows):
            found += [
                f"{kind}.{name}: {value!r}, but {fresh[key][name]!r}"
                for name, value in rows[key].items()
                if name in SHARED[kind] and fresh[key][name] != value
            ]
    return found


SHARED = {
    "messages": {"id", "session", "run", "position", "role", "text", "thinking", "complete", "streaming", "broken",
                 "model", "created_at", "calls"},
    "calls": {"id", "session", "run", "message", "parent", "position", "call_id", "name", "title", "headline",
              "arguments", "asked_arguments", "raw_arguments", "edited", "state", "outcome", "version", "manual", "why",
              "question", "result", "error", "late_result", "decided", "progress", "attempt", "created_at",
              "started_at", "finished_at", "expires_at", "escalates_at", "escalated", "quorum", "four_eyes",
              "approvals"},
}  # fmt: skip
