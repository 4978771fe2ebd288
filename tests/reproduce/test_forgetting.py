"""Gradients by distance: what must vanish, what must explode, what nobody can see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from regard.errors import RegardError
from regard.nn.convolution import receptive_field
from regard.reproduce import forgetting
from regard.reproduce.forgetting import CLIP_NORM, KINDS, Forgetting, gradients, over_seeds

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def found() -> Forgetting:
    return forgetting.measure(50, 16, 2, CPU)


def test_an_rnn_forgets_where_a_transformer_does_not(found: Forgetting) -> None:
    assert found.by_kind["RNN"][50] < 1e-3 * found.by_kind["Transformer, 2 layers"][50]
    assert found.by_kind["RNN"][50] < found.by_kind["LSTM"][50]


def test_a_transformer_does_not_care_how_far_an_input_is(found: Forgetting) -> None:
    values = found.by_kind["Transformer, 2 layers"][1:]
    assert max(values) < 10 * min(values)


def test_a_convolution_is_blind_beyond_its_field(found: Forgetting) -> None:
    for name, field in (
        ("convolution, 8 layers", receptive_field(3, 8)),
        ("convolution, 5 dilated", receptive_field(3, 5, dilated=True)),
    ):
        seen = [value > 0 for value in found.by_kind[name]]
        assert seen[:field] == [True] * min(field, 51)
        assert not any(seen[field:])


def test_a_small_recurrent_matrix_makes_gradients_vanish_and_a_large_one_explode(found: Forgetting) -> None:
    ends = {one.scale: one.by_distance[-1] for one in found.scaled}
    assert ends[0.5] < 2 * 0.5**50
    assert ends[1.0] == pytest.approx(1.0, rel=0.3)  # orthogonal, and tanh hardly bends so near to zero
    assert ends[2.0] > 100
    assert list(ends.values())[:4] == sorted(list(ends.values())[:4])


def test_clipping_bounds_a_gradient_and_brings_nothing_back(found: Forgetting) -> None:
    for one in found.scaled:
        assert one.clipped == pytest.approx(min(one.norm, CLIP_NORM), rel=1e-3)
    assert max(one.norm for one in found.scaled) > CLIP_NORM
    assert found.scaled[0].far < 1e-6


def test_a_gradient_by_distance_is_the_jacobians_row() -> None:
    """One sequence, one direction: the norms by a Jacobian computed another way."""
    torch.manual_seed(3)
    model = KINDS["GRU"](4).double()
    torch.manual_seed(4)
    found = gradients(model, 3, 4, CPU, 1.0)
    torch.manual_seed(4)
    x = torch.randn(forgetting.SEQUENCES, 4, 4, dtype=torch.float64)
    v = torch.randn(forgetting.SEQUENCES, 4, dtype=torch.float64)
    whole = torch.autograd.functional.jacobian(lambda x: model(x)[:, -1], x)  # (B, 4, B, N, 4)
    rows = torch.einsum("bo,bobni->bni", v, torch.as_tensor(whole))
    torch.testing.assert_close(found, rows.norm(dim=-1).mean(0).flip(0))


def test_seeds_are_averaged_in_the_logarithm() -> None:
    one = over_seeds(KINDS["RNN"], 5, 8, 1, CPU)
    assert one[0] == 1.0
    assert over_seeds(KINDS["RNN"], 5, 8, 1, CPU) == one
    assert over_seeds(KINDS["RNN"], 5, 8, 2, CPU) != one


def test_everything_is_written(found: Forgetting, tmp_path: Path) -> None:
    forgetting.write(found, tmp_path)
    record = json.loads((tmp_path / "forgetting.json").read_text(encoding="utf-8"))
    assert len(record["by_kind"]["GRU"]) == 51
    text = (tmp_path / "forgetting.md").read_text(encoding="utf-8")
    assert text.count("\n| ") == 1 + len(found.scaled) + len(KINDS)
    assert (tmp_path / "forgetting.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(("distance", "columns"), [(20, "δ = 10 | δ = 20 |"), (30, "δ = 20 | δ = 30 |")])
def test_the_table_reaches_the_distance_that_was_asked_for(distance: int, columns: str) -> None:
    found = Forgetting(distance, {"RNN": [0.5] * (distance + 1)}, [])
    assert forgetting.table(found).splitlines()[0].endswith(columns)


def test_a_width_that_the_heads_do_not_divide_is_named() -> None:
    with pytest.raises(RegardError, match="--width 9 must be a multiple of 4"):
        forgetting.measure(5, 9, 1, CPU)
