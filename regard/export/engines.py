"""The engines: our own model, CTranslate2, ONNX and transformers, as `regard.decode.engine` describes them.

The others than ours rank by log-probability over |Y|^α ("power") and stop by rules of their own. All that they have
found is ranked here by the normalisation of the request, so that under "gnmt" the best comes first of those that were
best by "power".
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard.config import DecodeConfig, PairModel, read_model, read_section
from regard.data.batching import in_order_of_length
from regard.data.files import file_hash
from regard.data.tokenizer import BOS, EOS, PAD, SYMBOLS, UNK, TokenizerPair
from regard.decode.engine import Engine
from regard.decode.search import search
from regard.decode.state import NORMALIZATIONS, Hypothesis, SearchOptions
from regard.decode.translator import Translator
from regard.errors import RegardError
from regard.export import marian
from regard.export.ctranslate2 import POSITIONS
from regard.export.onnx import FILES, cache_names
from regard.training.checkpoint import tensor_digest, weights
from regard.training.run import MANIFEST

UNSEALED = (MANIFEST, "README.md")  # files of a folder that its digests leave out
BANNED = (PAD, BOS, UNK)


HONOURED = frozenset(  # all of them also take alignment_layer, which concerns no search
    ("beam_size", "length_penalty", "normalization", "extra_length", "batch_sentences", "alignment_layer")
)
Found = tuple[list[int], float]  # an output and its log-probability
Progress = Callable[[int], None] | None


@dataclass(frozen=True)
class Settings:
    """How an engine runs; what it answers does not depend on these."""

    device: str = "cpu"  # cpu, cuda or cuda:1 …
    compute_type: str = "default"  # CTranslate2's: default keeps the type of the weights, or takes one of more bits
    inter_threads: int = 1  # CTranslate2: batches at a time
    intra_threads: int = 0  # threads within a batch; 0: the engine's own choice
    patience: float = 2.0  # CTranslate2 ends a beam after beam_size · patience hypotheses, ours when none can win

    def spread(self, threads: int, side_by_side: bool) -> Settings:
        """Threads for batches side by side, which gets most done, or all for one batch, which answers soonest."""
        if self.device != "cpu":
            return self
        inter, intra = (threads, 1) if side_by_side else (1, threads)
        return replace(self, inter_threads=inter, intra_threads=intra)


@dataclass(frozen=True)
class Manifest:
    """What must be known of an exported model to run it."""

    format: str
    quantization: str
    model: PairModel
    decode: DecodeConfig
    weights: str = ""  # the digest of those it was made of
    files: dict[str, str] = field(default_factory=dict)  # path → sha256; exports of older versions have none

    @classmethod
    def open(cls, folder: Path) -> Manifest:
        try:
            content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            model = read_model(content["model"])
            decode = read_section(DecodeConfig, content["decode"], "decode.")
            origin, files = content.get("weights", ""), dict(content.get("files", {}))
            return cls(content["format"], content["quantization"], model, decode, origin, files)
        except FileNotFoundError:
            raise RegardError(f"{folder} is no export: it has no {MANIFEST}; make one with regard export.") from None
        except (ValueError, KeyError, TypeError):
            raise RegardError(f"{folder / MANIFEST} is damaged: export the run again.") from None

    @classmethod
    def verified(cls, folder: Path) -> Manifest:
        """The same, of a folder whose files are those that were exported."""
        manifest = cls.open(folder)
        for name, digest in manifest.files.items():
            path = folder / name
            if not path.is_file() or file_hash(path) != digest:
                raise RegardError(
                    f"{path} is missing or not the one that was exported: delete {folder} and export the run again."
                )
        return manifest

    @property
    def longest(self) -> int:
        """The longest sequence there are positions for."""
        if self.model.family != "recurrent" and self.model.positions == "learned":
            return self.model.max_positions
        return marian.POSITIONS if self.format == "marian" else POSITIONS


def file_digests(folder: Path) -> dict[str, str]:
    """The sha256 of every file that decides what an exported folder answers."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = {path.relative_to(folder).as_posix(): path for path in paths}
    return {name: file_hash(path) for name, path in names.items() if name not in UNSEALED}


def open_engine(folder: Path, settings: Settings | None = None) -> Engine:
    """The engine for an exported folder, whatever its format."""
    manifest, settings = Manifest.open(folder), settings or Settings()
    if manifest.format == "safetensors":
        from regard.training.pairs import load_translator

        return TorchEngine(load_translator(folder, device=settings.device))
    engines: dict[str, type[Ctranslate2Engine | OnnxEngine | TransformersEngine]]
    engines = {"ctranslate2": Ctranslate2Engine, "onnx": OnnxEngine, "marian": TransformersEngine}
    return engines[manifest.format](folder, settings)


def needed(package: str, extra: str) -> Any:
    """A package that only those need who use this engine."""
    try:
        return import_module(package)
    except ImportError:
        raise RegardError(f"This needs {package}: pip install 'regard[{extra}]'.") from None


def folder_identity(name: str, folder: Path, compute_type: str = "") -> dict[str, str]:
    """What decides the answers of an engine that reads a folder."""
    total = hashlib.sha256()
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        total.update(f"{path.relative_to(folder)} {file_hash(path)}\n".encode())
    return {"engine": name, "weights": total.hexdigest(), "compute_type": compute_type}


def check_lengths(sources: Sequence[Sequence[int]], longest: int) -> None:
    for i, source in enumerate(sources):
        if len(source) > longest:
            raise RegardError(f"Sentence {i + 1} has {len(source)} tokens, and the export positions for {longest}.")


def alike(numbers: Iterable[int], values: Sequence[int], batch: int) -> Iterator[list[int]]:
    """Groups of numbers for which `values` are equal, the largest first."""
    order = sorted(numbers, key=lambda i: -values[i])
    while order:
        group = [i for i in order[:batch] if values[i] == values[order[0]]]
        order = order[len(group) :]
        yield group


def ranked(found: Sequence[Found], n_best: int, config: DecodeConfig) -> list[Hypothesis]:
    """The n best of some outputs, best first by the request's own normalisation."""
    lengths = torch.tensor([len(tokens) for tokens, _ in found], dtype=torch.float64)
    penalties = NORMALIZATIONS[config.normalization](lengths, config.length_penalty).tolist()
    hypotheses = [
        Hypothesis(tokens, log_prob, log_prob / penalty)
        for (tokens, log_prob), penalty in zip(found, penalties, strict=True)
    ]
    return sorted(hypotheses, key=lambda one: -one.score)[:n_best]


class TorchEngine:
    """Our own model and search."""

    name, at_once = "torch", 1
    honours = frozenset(item.name for item in fields(DecodeConfig))

    def __init__(self, translator: Translator) -> None:
        self.translator = translator

    @property
    def longest(self) -> int:
        return self.translator.longest

    def identity(self) -> dict[str, str]:
        models = [self.translator.model, *self.translator.partners]
        digests = [tensor_digest({name: part.cpu() for name, part in weights(model).items()}) for model in models]
        return {"engine": self.name, "weights": " ".join(digests), "tokenizer": self.translator.tokenizers.hash}

    @torch.inference_mode()
    def decode(
        self, sources: list[list[int]], n_best: int, config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        return self.translator.decode(sources, n_best, config, progress)


class Ctranslate2Engine:
    """CTranslate2 on an exported folder."""

    name, honours = "CTranslate2", HONOURED | {"max_length"}  # no min_length: it makes other tokens more probable
    at_once = 2  # while the last batches of one call are at work, the first of the next fill what they leave idle

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self.folder, self.settings, self.manifest = folder, settings or Settings(), Manifest.verified(folder)
        ctranslate2 = needed("ctranslate2", "fast")
        tokenizers = TokenizerPair.load(folder / "tokenizer")
        sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
        self.source, self.target = tokenizers.source.pieces(range(sizes[0])), tokenizers.target.pieces(range(sizes[1]))
        self.numbers = {piece: number for number, piece in enumerate(self.target)}
        device, _, index = self.settings.device.partition(":")
        threads = torch.get_num_threads()
        try:
            able = ctranslate2.get_supported_compute_types(device, int(index or 0))
            lacking = self.settings.compute_type == "default" and self.manifest.quantization not in able
            self.instead = "float32" if lacking else ""  # CTranslate2 itself would take int8 for int16
            self.translator = ctranslate2.Translator(
                str(folder), device=device, device_index=int(index or 0),
                compute_type=self.instead or self.settings.compute_type,
                inter_threads=self.settings.inter_threads, intra_threads=self.settings.intra_threads,
            )  # fmt: skip
        except (RuntimeError, ValueError) as error:
            raise RegardError(f"CTranslate2 cannot open {folder}: {error}.") from None
        finally:
            torch.set_num_threads(threads)  # it changes those of the whole process
        for side, pieces in (("source", self.source), ("target", self.target)):
            for path in (folder / f"{side}_vocabulary.json", folder / "shared_vocabulary.json"):
                if path.is_file() and json.loads(path.read_text(encoding="utf-8")) != pieces:
                    raise RegardError(
                        f"{path} and {folder / 'tokenizer'} have different pieces, so one of them is another model's: "
                        "export the run again."
                    )

    @property
    def longest(self) -> int:
        return self.manifest.longest

    def identity(self) -> dict[str, str]:
        return folder_identity(self.name, self.folder, self.instead or self.settings.compute_type)

    def limit(self, source: Sequence[int], config: DecodeConfig) -> int:
        """The most tokens an output may have."""
        return min(len(source) + config.extra_length, config.max_length or self.longest, self.longest)

    def decode(
        self, sources: list[list[int]], n_best: int, config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        """The sources of a batch differ in length, and CTranslate2 has one limit for all of them. Where that was above
        a source's own, and an output came so far, the source is searched again with its like."""
        check_lengths(sources, self.longest)
        limits = [self.limit(source, config) for source in sources]
        width, share = max(config.beam_size, n_best), -(-len(sources) // self.settings.inter_threads)
        batch = max(1, min(config.batch_sentences, share))
        groups = in_order_of_length([len(source) for source in sources], batch)
        found: list[list[Found]] = [[] for _ in sources]
        beyond, done = set(), 0
        for group, pools in self.search(sources, groups, limits, width, config):
            ceiling = max(limits[i] for i in group)
            for i, pool in zip(group, pools, strict=True):
                found[i] = pool
                if limits[i] < ceiling and any(len(tokens) >= limits[i] for tokens, _ in pool):
                    beyond.add(i)
            done += len(group)
            if progress:
                progress(done - len(beyond))
        for group, pools in self.search(sources, alike(beyond, limits, batch), limits, width, config):
            for i, pool in zip(group, pools, strict=True):
                found[i] = pool
        # What is barred here leaves the other tokens more probable than they are, and a beam then ranks otherwise: so
        # nothing is, until it comes out.
        odd = [i for i, pool in enumerate(found) if any(not set(BANNED).isdisjoint(tokens) for tokens, _ in pool)]
        barred = {"disable_unk": True, "suppress_sequences": [[self.target[PAD]], [self.target[BOS]]]}
        for group, pools in self.search(sources, alike(odd, limits, batch), limits, width, config, barred):
            for i, pool in zip(group, pools, strict=True):
                found[i] = self.rescored(sources[i], pool)
        if progress:
            progress(len(sources))
        return [ranked(pool, n_best, config) for pool in found]

    def rescored(self, source: Sequence[int], pool: list[Found]) -> list[Found]:
        """Outputs with the log-probabilities that they have where nothing is barred."""
        pieces = [[self.source[token] for token in source[:-1]]] * len(pool)
        outputs = [[self.target[token] for token in tokens if token != EOS] for tokens, _ in pool]  # it adds the end
        scored = self.translator.score_batch(pieces, outputs, max_input_length=0)
        return [(tokens, sum(score.log_probs[: len(tokens)])) for (tokens, _), score in zip(pool, scored, strict=True)]

    def search(
        self,
        sources: Sequence[Sequence[int]],
        groups: Iterable[list[int]],
        limits: Sequence[int],
        width: int,
        config: DecodeConfig,
        barred: dict[str, Any] | None = None,
    ) -> Iterator[tuple[list[int], list[list[Found]]]]:
        """All that a beam has found for the sources of each group, under the largest of their limits."""
        waiting: list[tuple[list[int], list[Any]]] = []
        for group in groups:
            pieces = [[self.source[token] for token in sources[i][:-1]] for i in group]  # it adds the end symbol
            answers = self.translator.translate_batch(
                pieces, asynchronous=True, beam_size=width, num_hypotheses=width, length_penalty=config.length_penalty,
                patience=self.settings.patience if width > 1 else 1, min_decoding_length=0,
                max_decoding_length=max(limits[i] for i in group), max_input_length=0, return_scores=True,
                return_end_token=True, **(barred or {}),
            )  # fmt: skip
            waiting.append((group, answers))
        for group, answers in waiting:
            yield group, [self.outputs(answer.result(), config.length_penalty) for answer in answers]

    def outputs(self, answer: Any, length_penalty: float) -> list[Found]:
        return [
            ([self.numbers[piece] for piece in pieces], score * len(pieces) ** length_penalty)
            for pieces, score in zip(answer.hypotheses, answer.scores, strict=True)
        ]


class OnnxEngine:
    """Our search over the two graphs of an exported folder, run by onnxruntime."""

    name, honours, at_once = "ONNX", HONOURED, 1

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self.folder, self.settings, self.manifest = folder, settings or Settings(), Manifest.verified(folder)
        onnxruntime = needed("onnxruntime", "onnx")
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self.settings.intra_threads
        options.log_severity_level = 3
        provider = "CUDAExecutionProvider" if self.settings.device.startswith("cuda") else "CPUExecutionProvider"
        if provider not in onnxruntime.get_available_providers():
            raise RegardError(f"This onnxruntime has no {provider}: install onnxruntime-gpu, or take --device cpu.")
        try:
            self.encoder, self.decoder = (
                onnxruntime.InferenceSession(folder / name, options, providers=[provider]) for name in FILES
            )
        except Exception as error:  # onnxruntime has exceptions of its own for each fault, and no common one
            raise RegardError(f"onnxruntime cannot open {folder}: {error}.") from None

    @property
    def longest(self) -> int:
        return self.manifest.longest

    def identity(self) -> dict[str, str]:
        return folder_identity(self.name, self.folder)

    def decode(
        self, sources: list[list[int]], n_best: int, config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        options = SearchOptions(
            start=SYMBOLS[self.manifest.model.start], end=EOS, beam_size=max(config.beam_size, n_best), n_best=n_best,
            length_penalty=config.length_penalty, normalization=config.normalization, banned=BANNED,
        )  # fmt: skip
        check_lengths(sources, self.longest)
        found: list[list[Hypothesis]] = [[] for _ in sources]
        done = 0
        for group in in_order_of_length([len(source) for source in sources], config.batch_sentences):
            batch = [sources[i] for i in group]
            limits = [min(len(source) + config.extra_length, self.longest) for source in batch]
            step = OnnxStep(self.encoder, self.decoder, batch, options.beam_size)
            for i, hypotheses in zip(group, search(step, limits, options, torch.device("cpu")), strict=True):
                found[i] = hypotheses
            done += len(group)
            if progress:
                progress(done)
        return found


class OnnxStep:
    """A batch of sentences between steps of the decoder: what `regard.decode.search` asks of a model. All of them enter
    together, so that all are at the same position."""

    def __init__(self, encoder: Any, decoder: Any, sources: Sequence[Sequence[int]], beam: int) -> None:
        self.encoder, self.decoder, self.sources, self.beam = encoder, decoder, sources, beam
        names = [item.name for item in decoder.get_inputs()]
        self.names = cache_names(sum(name.startswith("past_keys") for name in names))
        self.shapes = {item.name: item.shape for item in decoder.get_inputs()}
        self.mask = np.zeros((0, 0), dtype=bool)
        self.memory: list[np.ndarray] = []
        self.past: list[np.ndarray] = []

    def enter(self, slots: Tensor, sentences: Sequence[int]) -> None:
        sources = [self.sources[sentence] for sentence in sentences]
        lengths = np.array([len(source) for source in sources])
        self.mask = np.arange(lengths.max()) < lengths[:, None]
        tokens = np.full(self.mask.shape, PAD, dtype=np.int64)
        tokens[self.mask] = np.concatenate([np.asarray(source) for source in sources])
        self.memory = self.encoder.run(self.names["memory"], {"tokens": tokens, "mask": self.mask})
        self.past = [
            np.zeros((len(sources), self.beam, self.shapes[name][2], 0, self.shapes[name][4]), dtype=np.float32)
            for name in self.names["past"]
        ]

    def __call__(self, tokens: Tensor, positions: Tensor, longest: int) -> Tensor:
        inputs = {"tokens": tokens.numpy(), "position": positions[:1].numpy(), "mask": self.mask}
        inputs |= dict(zip(self.names["memory"], self.memory, strict=True))
        inputs |= dict(zip(self.names["past"], self.past, strict=True))
        logits, *self.past = self.decoder.run(["logits", *self.names["present"]], inputs)
        return torch.from_numpy(logits)

    def reorder(self, parents: Tensor, longest: int) -> None:
        rows = parents.numpy()
        if self.beam > 1:
            self.past = [part[np.arange(len(rows))[:, None], rows] for part in self.past]

    def keep(self, slots: Tensor) -> None:
        rows = slots.numpy()
        self.mask = self.mask[rows]
        self.memory, self.past = ([part[rows] for part in parts] for parts in (self.memory, self.past))


class TransformersEngine:
    """transformers' MarianMT on an exported folder; its beam told to lose nothing by stopping early."""

    name, honours, at_once = "transformers", HONOURED, 1

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self.folder, self.settings, self.manifest = folder, settings or Settings(), Manifest.verified(folder)
        transformers = needed("transformers", "hf")
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        self.model = transformers.MarianMTModel.from_pretrained(folder).eval().to(self.settings.device)

    @property
    def longest(self) -> int:
        return self.manifest.longest

    def identity(self) -> dict[str, str]:
        return folder_identity(self.name, self.folder)

    @torch.inference_mode()
    def decode(
        self, sources: list[list[int]], n_best: int, config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        check_lengths(sources, self.longest)
        found: list[list[Hypothesis]] = [[] for _ in sources]
        width, alpha, done = max(config.beam_size, n_best), config.length_penalty, 0
        for group in alike(range(len(sources)), [len(source) for source in sources], config.batch_sentences):
            src = torch.tensor([sources[i] for i in group], device=self.model.device)
            limit = min(src.shape[1] + config.extra_length, self.longest)
            more = {"early_stopping": "never", "length_penalty": alpha} if width > 1 else {}
            answer = self.model.generate(
                src, attention_mask=torch.ones_like(src), num_beams=width, num_return_sequences=width, do_sample=False,
                max_length=None, max_new_tokens=limit, return_dict_in_generate=True, output_scores=True,
                output_logits=width == 1, **more,
            )  # fmt: skip
            rows = [cut(row[1:]) for row in answer.sequences.tolist()]
            if width > 1:
                scores = zip(answer.sequences_scores.tolist(), rows, strict=True)
                log_probs = [score * len(tokens) ** alpha for score, tokens in scores]
            else:
                log_probs = greedy_log_probs(answer, rows)
            outputs = list(zip(rows, log_probs, strict=True))
            for j, i in enumerate(group):
                found[i] = ranked(outputs[j * width : (j + 1) * width], n_best, config)
            done += len(group)
            if progress:
                progress(done)
        return found


def cut(tokens: list[int]) -> list[int]:
    """An output without what fills it up behind its end."""
    return tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens


def greedy_log_probs(answer: Any, rows: list[list[int]]) -> list[float]:
    """What transformers leaves out of greedy search: the log-probabilities of the tokens, before any was barred."""
    steps = torch.stack([logits.float().log_softmax(-1) for logits in answer.logits], dim=1)  # (B, T, V)
    return [float(steps[i, range(len(tokens)), tokens].sum()) for i, tokens in enumerate(rows)]
