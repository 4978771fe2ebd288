"""What the routes share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from fastapi import Request

from regard.serve.batcher import Batcher
from regard.serve.guard import Access
from regard.serve.keys import Key, Keyring
from regard.serve.limits import Limits
from regard.serve.metrics import Metrics
from regard.serve.models import Models


@dataclass
class Serving:
    """A server's models, queue, limits, keys and counts."""

    models: Models
    limits: Limits
    metrics: Metrics
    batcher: Batcher
    keys: Keyring | None = None
    access: Access = field(default_factory=Access)
    log: Callable[[str], None] = lambda text: None
    log_text: bool = False

    def admit(self, request: Request, api_key: str) -> None:
        """Count a request against its key, where keys are needed."""
        if self.keys:
            self.keys.spend(self.known(request, api_key))

    def known(self, request: Request, api_key: str = "") -> Key:
        """The key of a request, whose name the log will have."""
        assert self.keys
        key = self.keys.find(given_key(request, api_key))
        request.state.key = key.name
        return key


def given_key(request: Request, api_key: str = "") -> str:
    """The key of a request: in its header, or as LibreTranslate's clients send it."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    return key.strip() if scheme.lower() == "bearer" else api_key
