"""Recipes that learn from sets: the experiments of *Set Transformer* (Lee et al., 2019), §5."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from regard.config.checks import at_least, between
from regard.config.recipe import Recipe, TrainConfig
from regard.config.sets import SetTransformerConfig
from regard.errors import RegardError


@dataclass(frozen=True)
class SetTrainConfig(TrainConfig):
    """The loop over sets. The paper's optimiser is Adam with its usual constants, and no warm-up."""

    batch_sets: int = 32
    schedule: Literal["inverse_sqrt", "linear", "constant", "stepped"] = "constant"
    warmup_steps: int = 1
    beta2: float = 0.999
    adam_eps: float = 1e-8
    precision: Literal["auto", "float32", "bfloat16"] = "float32"
    best_by: Literal["loss"] = "loss"
    keep: int = 1
    average: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "train", batch_sets=1)


@dataclass(frozen=True)
class HeldOutConfig:
    """How many sets a run is judged by."""

    valid_sets: int = 500
    test_sets: int = 2_000

    def __post_init__(self) -> None:
        at_least(self, "data", valid_sets=1, test_sets=1)


def check_sizes(section: NumbersConfig | MixturesConfig | CharactersConfig | KeyChainsConfig, least: int = 1) -> None:
    at_least(section, "data", smallest=least)
    if section.largest < section.smallest:
        raise RegardError(f"data.largest = {section.largest} is less than data.smallest = {section.smallest}.")


@dataclass(frozen=True)
class NumbersConfig(HeldOutConfig):
    """Max regression: n ~ U{smallest..largest}, x ~ U[0, highest]."""

    smallest: int = 1
    largest: int = 10
    highest: float = 100.0
    shared_size: bool = False  # the sets of a training batch have one size, as where there are no masks

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self)
        at_least(self, "data", highest=1e-6)


@dataclass(frozen=True)
class CharactersConfig(HeldOutConfig):
    """Counting unique characters: n ~ U{smallest..largest} images of Omniglot."""

    path: str = ""  # the .npz with Omniglot's images
    smallest: int = 6
    largest: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self)


@dataclass(frozen=True)
class MixturesConfig(HeldOutConfig):
    """Amortised clustering: mixtures of Gaussians of n ~ U{smallest..largest} points."""

    smallest: int = 100
    largest: int = 499  # the paper's n ~ U(100, 500), whose upper end is not reached
    n_components: int = 4  # K
    spread: float = 4.0  # μ ~ U(−spread, spread)²
    sigma: float = 0.3
    views: int = 32  # sides from which test sets are looked at once more, which takes as many passes; 0: none

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self)
        at_least(self, "data", n_components=1, spread=1e-6, sigma=1e-6, views=0)


@dataclass(frozen=True)
class AnomalyConfig(HeldOutConfig):
    """Set anomaly detection: images that share two attributes, and one that has neither."""

    path: str = ""  # the folder of Flickr8k
    size: int = 8
    side: int = 40  # pixels
    train_sets: int = 800  # 0: a new set each time

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "data", size=3, side=8, train_sets=0)


@dataclass(frozen=True)
class CloudsConfig(HeldOutConfig):
    """Point clouds: generated shapes, digits (MNIST), or ModelNet40."""

    source: Literal["shapes", "digits", "modelnet40"] = "shapes"
    path: str = ""  # the folder of MNIST's or ModelNet40's files
    n_points: int = 1_000
    noise: float = 0.05  # of a generated shape's points

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least(self, "data", n_points=2, noise=0.0)
        if self.path and self.source == "shapes":
            raise RegardError(
                f'data.path = {self.path} is for data.source = "digits" or "modelnet40": "shapes" are generated. '
                "Leave it out or set data.source."
            )


@dataclass(frozen=True)
class KeyChainsConfig(HeldOutConfig):
    """Multiple instances: chains of keys, which open the door where one key fits, or two together."""

    smallest: int = 5
    largest: int = 20
    rule: Literal["any", "both"] = "both"
    n_shapes: int = 10
    d: int = 16  # numbers that describe a key
    noise: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, 2)
        at_least(self, "data", n_shapes=3, d=1, noise=0.0)


@dataclass(frozen=True)
class ImagesConfig:
    """What turns an image into the vector that a set model sees: 3×3 convolutions of stride 2, then linear maps."""

    n_convolutions: int = 4
    channels: int = 64  # of the first
    growth: int = 1  # each has so many times the channels of the one before
    batch_norm: bool = True
    hidden: int = 0  # width of the first linear map, each then half as wide, down to d_out; 0: none
    d_out: int = 256  # of the last linear map, where there are any
    dropout: float = 0.0

    def __post_init__(self) -> None:
        at_least(self, "images", n_convolutions=1, channels=1, growth=1, hidden=0, d_out=1)
        between(self, "images", 0.0, 1.0, "dropout")


@dataclass(frozen=True)
class SetRecipe(Recipe):
    """Everything that decides a run on sets. Each task adds the section of its data."""

    PLACES: ClassVar[tuple[str, ...]] = ("data.path",)
    VERBS: ClassVar[tuple[str, ...]] = ("evaluate", "view")

    model: SetTransformerConfig = field(default_factory=SetTransformerConfig)
    train: SetTrainConfig = field(default_factory=SetTrainConfig)
    data: HeldOutConfig = field(default_factory=HeldOutConfig)


@dataclass(frozen=True)
class ImageSetRecipe(SetRecipe):
    """Of sets whose elements are images."""

    images: ImagesConfig = field(default_factory=ImagesConfig)


@dataclass(frozen=True)
class MaxRegressionRecipe(SetRecipe):
    task: Literal["max_regression"] = "max_regression"
    data: NumbersConfig = field(default_factory=NumbersConfig)


@dataclass(frozen=True)
class UniqueCharactersRecipe(ImageSetRecipe):
    task: Literal["unique_characters"] = "unique_characters"
    data: CharactersConfig = field(default_factory=CharactersConfig)


@dataclass(frozen=True)
class ClusteringRecipe(SetRecipe):
    task: Literal["clustering"] = "clustering"
    model: SetTransformerConfig = field(default_factory=lambda: SetTransformerConfig(n_seeds=4, decoder_layers=1))
    data: MixturesConfig = field(default_factory=MixturesConfig)

    def __post_init__(self) -> None:
        outputs = self.model.n_outputs or self.model.n_seeds
        if outputs != self.data.n_components:
            raise RegardError(
                f"The model gives {outputs} components and data.n_components = {self.data.n_components}: set "
                "model.n_outputs or model.n_seeds to as many."
            )


@dataclass(frozen=True)
class AnomalyRecipe(ImageSetRecipe):
    task: Literal["anomaly"] = "anomaly"
    data: AnomalyConfig = field(default_factory=AnomalyConfig)


@dataclass(frozen=True)
class PointCloudsRecipe(SetRecipe):
    task: Literal["point_clouds"] = "point_clouds"
    data: CloudsConfig = field(default_factory=CloudsConfig)


@dataclass(frozen=True)
class KeyChainRecipe(SetRecipe):
    task: Literal["key_chain"] = "key_chain"
    data: KeyChainsConfig = field(default_factory=KeyChainsConfig)


SET_RECIPES = (
    MaxRegressionRecipe, UniqueCharactersRecipe, ClusteringRecipe, AnomalyRecipe, PointCloudsRecipe, KeyChainRecipe,
)  # fmt: skip
