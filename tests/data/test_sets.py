"""Sets by number: the distributions the paper names, the same sets however they are asked for, files read right."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from set_files import write_flickr8k, write_mnist, write_modelnet, write_omniglot

from regard.data.batching import Place
from regard.data.sets import SetOrder, Sets, Source, stream
from regard.data.sets.anomalies import ATTRIBUTES, FILES, flickr8k
from regard.data.sets.bags import KeyChains
from regard.data.sets.characters import omniglot
from regard.data.sets.clouds import CLASSES, ShapeClouds, digits, modelnet40, rotations
from regard.data.sets.maximum import Numbers
from regard.data.sets.mixtures import Mixtures
from regard.data.sets.shapes import SHAPES
from regard.errors import RegardError

GENERATED: list[Source] = [
    Numbers(1, 10, 100.0), Mixtures(20, 59, 4, 4.0, 0.3), KeyChains(5, 20, "both", 10, 16, 0.5), ShapeClouds(40, 0.05),
]  # fmt: skip


def drawn(source: Source, count: int) -> Sets:
    return stream(source, "train", 1, count).take(np.arange(count))


# --- the same sets however they are asked for ------------------------------------------------------------


@pytest.mark.parametrize("source", GENERATED, ids=lambda source: type(source).__name__)
def test_a_set_is_the_same_in_whatever_batch_it_is_asked_for(source: Source) -> None:
    sets = stream(source, "train", 1, 8)
    asked = np.array([17, 3, 8, 0, 31])
    together = sets.take(asked)
    for row, number in enumerate(asked):
        alone = sets.take(np.array([number]))
        assert np.array_equal(together.elements[row, : alone.sizes[0]], alone.elements[0, : alone.sizes[0]])
        assert np.array_equal(together.target[row], alone.target[0])


@pytest.mark.parametrize("source", GENERATED, ids=lambda source: type(source).__name__)
def test_padding_is_zero_and_no_set_is_beyond_its_rectangle(source: Source) -> None:
    sets = drawn(source, 50)
    for elements, size in zip(sets.elements, sets.sizes, strict=True):
        assert 1 <= size <= len(elements)
        assert not elements[size:].any()


def test_seeds_and_splits_have_sets_of_their_own_but_held_out_ones_are_everybodys() -> None:
    source, numbers = Numbers(1, 10, 100.0), np.arange(50)
    taken = {
        (split, seed): stream(source, split, seed, 50).take(numbers).elements
        for split in ("train", "valid", "test")
        for seed in (1, 2)
    }
    assert not np.array_equal(taken["train", 1], taken["train", 2])
    assert not np.array_equal(taken["valid", 1], taken["test", 1])
    assert np.array_equal(taken["test", 1], taken["test", 2])


def test_the_order_goes_on_from_any_place() -> None:
    order = SetOrder(4, 1, 10)
    first, place = order.take(Place(), 3)
    second, _ = order.take(place, 2)
    assert np.concatenate([*first, *second]).tolist() == list(range(20))
    assert order.take(Place(0, 3), 2)[0][0].tolist() == second[0].tolist()


def test_a_fixed_number_of_sets_is_seen_once_in_each_pass_in_another_order(tmp_path: Path) -> None:
    source = digits(str(write_mnist(tmp_path)), "train", 16, 0.0)
    sets, count = stream(source, "train", 1, 9), source.count
    assert count == 36
    passes = [sets.take(np.arange(first, first + count)).target for first in (0, count)]
    assert sorted(passes[0]) == sorted(passes[1]) == sorted(source.labels)
    assert not np.array_equal(*passes)


# --- distributions ---------------------------------------------------------------------------------------


def test_the_largest_number_is_the_target_and_sizes_are_uniform() -> None:
    sets = drawn(Numbers(1, 10, 100.0), 20_000)
    assert np.array_equal(sets.target, sets.elements[..., 0].max(axis=1))
    shares = np.bincount(sets.sizes, minlength=11)[1:] / 20_000
    assert shares == pytest.approx(np.full(10, 0.1), abs=0.01)
    # The best constant guess is off by 14.48 on average.
    assert np.abs(sets.target - np.median(sets.target)).mean() == pytest.approx(14.48, abs=0.3)


def test_mixtures_have_the_papers_moments() -> None:
    sets = drawn(Mixtures(100, 499, 4, 4.0, 0.3), 400)
    assert sets.sizes.min() >= 100
    assert sets.sizes.max() <= 499
    assert set(drawn(Mixtures(3, 5, 4, 4.0, 0.3), 100).sizes) == {3, 4, 5}
    weights, means = sets.truth["weights"], sets.truth["means"]
    assert weights.sum(axis=1) == pytest.approx(np.ones(400), abs=1e-5)
    assert weights.var() == pytest.approx(3 / 80, abs=0.005)  # Dir(1, 1, 1, 1): K − 1 over K² (K + 1)
    assert means.std() == pytest.approx(8 / 12**0.5, abs=0.1)
    errors, shares = [], np.zeros(4)
    for row, size in enumerate(sets.sizes):
        labels = sets.target[row, :size]
        errors.append(sets.elements[row, :size] - means[row, labels])
        shares += np.bincount(labels, minlength=4) / size - weights[row]
    assert np.concatenate(errors).std() == pytest.approx(0.3, abs=0.003)
    assert np.abs(shares / 400).max() < 0.01


@pytest.mark.parametrize("rule", ["any", "both"])
def test_a_chain_opens_the_door_where_its_keys_fit(rule: str) -> None:
    source = KeyChains(5, 20, rule, 10, 16, 0.0)
    sets = drawn(source, 2_000)
    prototypes = np.random.default_rng(20_191).standard_normal((10, 16)).astype(np.float32)
    distance = np.abs(sets.elements[:, :, None] - prototypes).sum(axis=-1)  # (B, N, shapes)
    for row, size in enumerate(sets.sizes):
        shapes = set(distance[row, :size].argmin(axis=1).tolist())
        needed = {0} if rule == "any" else {0, 1}
        assert bool(sets.target[row]) == (needed <= shapes)
        fitting = np.isin(distance[row, :size].argmin(axis=1), list(needed)) & bool(sets.target[row])
        assert np.array_equal(sets.truth["fits"][row, :size], fitting)
    assert 0.4 < sets.target.mean() < 0.6


def test_shapes_are_standardised_clouds_of_every_class() -> None:
    sets = drawn(ShapeClouds(200, 0.02), 150)
    assert set(sets.target) == set(range(len(SHAPES)))
    assert len(SHAPES) >= 10
    assert sets.elements.mean(axis=(1, 2)) == pytest.approx(np.zeros(150), abs=1e-4)
    assert sets.elements.std(axis=(1, 2)) == pytest.approx(np.ones(150), abs=1e-3)


@pytest.mark.parametrize("name", list(SHAPES))
def test_every_shape_stays_near_the_origin_and_is_no_single_point(name: str) -> None:
    points = SHAPES[name](np.random.default_rng(0), (2, 500))
    assert points.shape == (2, 500, 3)
    assert np.abs(points).max() < 1.5
    assert points.std(axis=1).max() > 0.2


def test_rotations_are_rotations() -> None:
    turns = rotations(np.random.default_rng(0), 50)
    assert turns @ turns.transpose(0, 2, 1) == pytest.approx(np.broadcast_to(np.eye(3), (50, 3, 3)), abs=1e-5)
    assert np.linalg.det(turns) == pytest.approx(np.ones(50), abs=1e-5)


# --- files -----------------------------------------------------------------------------------------------


def test_characters_are_counted_and_splits_share_none(tmp_path: Path) -> None:
    path = str(write_omniglot(tmp_path))
    sources = {split: omniglot(path, split, 3, 4) for split in ("train", "valid", "test")}
    assert [len(source.images) for source in sources.values()] == [44, 5, 11]
    seen = [{image.tobytes() for image in source.images.reshape(-1, 784)} for source in sources.values()]
    assert not (seen[0] & seen[1] | seen[0] & seen[2] | seen[1] & seen[2])
    sets = drawn(sources["train"], 300)
    assert len(set(sets.sizes)) == 1
    for row in range(300):
        chosen = sets.truth["character"][row]
        assert len(set(chosen)) == sets.target[row]
        assert len({image.tobytes() for image in sets.elements[row]}) == len(chosen)  # no image twice
    n = int(sets.sizes[0])
    assert np.bincount(sets.target, minlength=n + 1)[1:] / 300 == pytest.approx(np.full(n, 1 / n), abs=0.09)


def test_the_outlier_lacks_what_the_others_share(tmp_path: Path) -> None:
    source = flickr8k(str(write_flickr8k(tmp_path)), "train", 5, 20, 16)
    sets = stream(source, "train", 1, 10).take(np.arange(20))
    for row, place in enumerate(sets.target):
        red = sets.elements[row, :, 8, 8, 0] > 100
        assert sets.truth["outlier"][row].tolist() == [i == place for i in range(5)]
        assert (red == red[place]).sum() == 1
    again = stream(source, "train", 1, 10).take(np.arange(20, 40))
    kinds = [{row.tobytes() for row in part.truth["image"]} for part in (sets, again)]
    assert kinds[0] == kinds[1]  # the second pass has the same sets, in another order
    assert len(ATTRIBUTES) > 30


def test_digits_become_points_on_their_strokes(tmp_path: Path) -> None:
    source = digits(str(write_mnist(tmp_path)), "test", 300, 0.0)
    sets = stream(source, "test", 1, 1).take(np.arange(10))
    assert sets.target.tolist() == list(range(10))
    # A bar of ink four rows high and fourteen wide: as clouds, all wider than high.
    spread = sets.elements.std(axis=1)
    assert (spread[:, 0] > 2 * spread[:, 1]).all()


def test_modelnet_is_read_from_its_usual_files(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    folder = str(write_modelnet(tmp_path))
    train, valid, test = (modelnet40(folder, split, 16) for split in ("train", "valid", "test"))
    assert (train.count, valid.count, test.count) == (18, 2, 20)
    sets = stream(test, "test", 1, 1).take(np.arange(20))
    assert sets.target.tolist() == [i % 40 for i in range(20)]
    assert sets.elements.shape == (20, 16, 3)
    strided = test.points[3][::4]
    expected = (strided - strided.mean()) / strided.std()
    assert sets.elements[3] == pytest.approx(expected, abs=1e-4)
    with pytest.raises(RegardError, match="have 64 points"):
        modelnet40(folder, "train", 100)
    names = tmp_path / "shape_names.txt"
    names.write_text("\n".join(CLASSES["modelnet40"]) + "\n", encoding="utf-8")
    assert modelnet40(folder, "test", 16).count == 20
    names.write_text("airplane\nbanana\n", encoding="utf-8")
    with pytest.raises(RegardError, match="other classes than ModelNet40's, airplane to xbox"):
        modelnet40(folder, "test", 16)


def test_a_folder_that_is_not_flickr8k_is_told_what_it_lacks(tmp_path: Path) -> None:
    folder = write_flickr8k(tmp_path)
    for name in FILES:
        kept = (folder / name).read_bytes()
        (folder / name).unlink()
        with pytest.raises(
            RegardError, match=rf"has no file {name}: it should be the folder of Flickr8k with index"
        ) as e:
            flickr8k(str(folder), "train", 5, 20, 16)
        assert "Errno" not in str(e.value)
        (folder / name).write_bytes(kept)
    for name, words in (("index.npz", "the arrays offsets and names"), (FILES[-1], "a text that xz has packed")):
        (folder / name).write_bytes(b"something else")
        with pytest.raises(RegardError, match=f"{name} should (have|be) {words}"):
            flickr8k(str(folder), "train", 5, 20, 16)
        write_flickr8k(tmp_path)


def test_files_that_are_missing_are_named() -> None:
    with pytest.raises(RegardError, match=r"say where it is with --set data\.path"):
        omniglot("", "train", 6, 10)
    with pytest.raises(RegardError, match="does not exist: it should be the folder of MNIST"):
        digits("/nowhere", "train", 10, 0.0)
