"""A gate between a test and the site's process: closed until the test makes a file of its name."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Gate:
    """A file in ``folder``."""

    folder: Path
    name: str

    def is_set(self) -> bool:
        """Whether the gate is open."""
        return (self.folder / f"{self.name}.open").exists()

    def set(self) -> None:
        """Open it."""
        (self.folder / f"{self.name}.open").touch()
