"""Recipes: typed sections that hold every default, read from TOML, changed by dotted overrides.

A recipe file holds values only. An unknown key or a wrong type is an error that names the key and the nearest right
one. `resolve` gives the whole recipe, which is saved with the run and in every checkpoint. Its `task` decides which
sections it has: `pairs` holds those of sequence pairs. `[model]` may be one of several kinds, told apart by `family`.
"""

from regard.config.checks import at_least, between
from regard.config.labels import BagConfig, LabelDataConfig, LabelRecipe, ReaderConfig, TextCnnConfig
from regard.config.pairs import (
    FOREIGN,
    PRESETS,
    DataConfig,
    DecodeConfig,
    PairModel,
    PairRecipe,
    PairTrainConfig,
    TokenizerConfig,
    TransformerConfig,
    foreign,
)
from regard.config.parsing import ParserDecodeConfig, ParserModelConfig, ParsingRecipe, TreebankConfig
from regard.config.reading import (
    RECIPES,
    differences,
    find,
    flatten,
    parse_override,
    read_model,
    read_section,
    read_value,
    resolve,
    resolve_as,
    shipped,
    to_dict,
    to_toml,
    uses,
)
from regard.config.recipe import Recipe, TrainConfig
from regard.config.seq2seq import ConvolutionalConfig, RecurrentConfig
from regard.config.set_tasks import SetRecipe, SetTrainConfig
from regard.config.sets import SetTransformerConfig

__all__ = [
    "FOREIGN",
    "PRESETS",
    "RECIPES",
    "BagConfig",
    "ConvolutionalConfig",
    "DataConfig",
    "DecodeConfig",
    "LabelDataConfig",
    "LabelRecipe",
    "PairModel",
    "PairRecipe",
    "PairTrainConfig",
    "ParserDecodeConfig",
    "ParserModelConfig",
    "ParsingRecipe",
    "ReaderConfig",
    "Recipe",
    "RecurrentConfig",
    "SetRecipe",
    "SetTrainConfig",
    "SetTransformerConfig",
    "TextCnnConfig",
    "TokenizerConfig",
    "TrainConfig",
    "TransformerConfig",
    "TreebankConfig",
    "at_least",
    "between",
    "differences",
    "find",
    "flatten",
    "foreign",
    "parse_override",
    "read_model",
    "read_section",
    "read_value",
    "resolve",
    "resolve_as",
    "shipped",
    "to_dict",
    "to_toml",
    "uses",
]
