"""What of a search a GPU would record, looked at on a CPU."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from regard.decode.recorded import Entrance, KeptBench
from regard.decode.search import work


class NoNumbersToPlaces(TorchDispatchMode):
    """Refuses `x[places] = number`: the number would be copied from the host, which no recording can."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        assert func is not torch.ops.aten.index_put_.default or args[2].dim() > 0, "x[places] = number"
        return func(*args, **(kwargs or {}))


def check_recordable(bench: KeptBench, sentences: int) -> None:
    """An entrance and a step of slots that have been at work before: what is made once is not recorded."""
    assert isinstance(bench.entrance, Entrance)
    work(bench.recorded, bench.parts, [3] * sentences, torch.device("cpu"))
    with NoNumbersToPlaces():
        bench.entrance.take_in()
        bench.recorded.compute(32)
