"""One interface to whatever translates token sequences: our own model, CTranslate2, ONNX, transformers.

Sources end with the end symbol; so do outputs, unless the limit of length came first. Scores are log-probabilities over
|Y|^α ("power"), the one normalisation that all of these have. Padding, start and unknown never come out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from regard.config import DecodeConfig, TransformerConfig, read_section
from regard.data.batching import in_order_of_length
from regard.data.tokenizer import BOS, EOS, PAD, SYMBOLS, UNK, TokenizerPair
from regard.decode.search import Hypothesis, SearchOptions, search
from regard.decode.translator import Translator
from regard.errors import RegardError
from regard.export import marian
from regard.export.ctranslate2 import POSITIONS
from regard.export.onnx import FILES, cache_names

MANIFEST = "export.json"  # what a folder of ours says of itself
BANNED = (PAD, BOS, UNK)


class Engine(Protocol):
    def translate(
        self, sources: Sequence[Sequence[int]], beam_size: int = 4, length_penalty: float = 0.6, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        """The n best outputs of each source, best first. A beam of 1 is greedy search."""


@dataclass(frozen=True)
class Settings:
    """How an engine runs; what it answers does not depend on these."""

    device: str = "cpu"  # cpu, cuda or cuda:1 …
    compute_type: str = "default"  # CTranslate2's: default keeps the type of the weights
    inter_threads: int = 1  # CTranslate2: batches at a time
    intra_threads: int = 0  # threads within a batch; 0: the engine's own choice
    batch_sentences: int = 64
    extra_length: int = DecodeConfig.extra_length  # at most input length + this many tokens
    patience: float = 2.0  # CTranslate2 ends a beam after beam_size · patience hypotheses, ours when none can win


@dataclass(frozen=True)
class Manifest:
    """What must be known of an exported model to run it."""

    format: str
    quantization: str
    model: TransformerConfig
    decode: DecodeConfig

    @classmethod
    def open(cls, folder: Path) -> Manifest:
        try:
            content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
            model = read_section(TransformerConfig, content["model"], "model.")
            decode = read_section(DecodeConfig, content["decode"], "decode.")
            return cls(content["format"], content["quantization"], model, decode)
        except FileNotFoundError:
            raise RegardError(f"{folder} is no export: it has no {MANIFEST}; make one with regard export.") from None
        except (ValueError, KeyError):
            raise RegardError(f"{folder / MANIFEST} is damaged: export the run again.") from None

    @property
    def longest(self) -> int:
        """The longest sequence there are positions for."""
        if self.model.positions == "learned":
            return self.model.max_positions
        return marian.POSITIONS if self.format == "marian" else POSITIONS


def open_engine(folder: Path, settings: Settings | None = None) -> Engine:
    """The engine for an exported folder, whatever its format."""
    manifest = Manifest.open(folder)
    engines: dict[str, type[Ctranslate2Engine | OnnxEngine | TransformersEngine]]
    engines = {"ctranslate2": Ctranslate2Engine, "onnx": OnnxEngine, "marian": TransformersEngine}
    if manifest.format == "safetensors":
        from regard.training.load import load

        return TorchEngine(load(folder, device=(settings or Settings()).device), settings)
    return engines[manifest.format](folder, settings)


def needed(package: str, extra: str) -> Any:
    """A package that only those need who use this engine."""
    try:
        return import_module(package)
    except ImportError:
        raise RegardError(f"This needs {package}: pip install 'regard[{extra}]'.") from None


def by_length(sources: Sequence[Sequence[int]], batch: int, longest: int) -> Iterator[list[int]]:
    """Groups of sources of equal length, so that all of a group have the same limit, and none is padded."""
    for i, source in enumerate(sources):
        if len(source) > longest:
            raise RegardError(f"Sentence {i + 1} has {len(source)} tokens, and the export positions for {longest}.")
    order = sorted(range(len(sources)), key=lambda i: -len(sources[i]))
    while order:
        length = len(sources[order[0]])
        group = [i for i in order[:batch] if len(sources[i]) == length]
        order = order[len(group) :]
        yield group


class TorchEngine:
    """Our own model and search."""

    def __init__(self, translator: Translator, settings: Settings | None = None) -> None:
        self.translator, self.settings = translator, settings or Settings()

    @torch.inference_mode()
    def translate(
        self, sources: Sequence[Sequence[int]], beam_size: int = 4, length_penalty: float = 0.6, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        config = self.translator.options(
            beam_size=beam_size, length_penalty=length_penalty, normalization="power",
            extra_length=self.settings.extra_length,
        )  # fmt: skip
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for group in in_order_of_length([len(source) for source in sources], self.settings.batch_sentences):
            best = self.translator.decode([list(sources[i]) for i in group], n_best, config)
            for i, hypotheses in zip(group, best, strict=True):
                found[i] = hypotheses
        return found


class Ctranslate2Engine:
    """CTranslate2 on an exported folder."""

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self.settings, self.manifest = settings or Settings(), Manifest.open(folder)
        ctranslate2 = needed("ctranslate2", "fast")
        tokenizers = TokenizerPair.load(folder / "tokenizer")
        sizes = tokenizers.source.vocab_size, tokenizers.target.vocab_size
        self.source, self.target = tokenizers.source.pieces(range(sizes[0])), tokenizers.target.pieces(range(sizes[1]))
        self.numbers = {piece: number for number, piece in enumerate(self.target)}
        device, _, index = self.settings.device.partition(":")
        try:
            self.translator = ctranslate2.Translator(
                str(folder), device=device, device_index=int(index or 0), compute_type=self.settings.compute_type,
                inter_threads=self.settings.inter_threads, intra_threads=self.settings.intra_threads,
            )  # fmt: skip
        except (RuntimeError, ValueError) as error:
            raise RegardError(f"CTranslate2 cannot open {folder}: {error}.") from None

    def translate(
        self, sources: Sequence[Sequence[int]], beam_size: int = 4, length_penalty: float = 0.6, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        found = self.search(sources, beam_size, length_penalty, n_best, {})
        # What is barred here leaves the other tokens more probable than they are, and a beam then ranks otherwise: so
        # nothing is, until it comes out.
        odd = [i for i, best in enumerate(found) if any(set(one.tokens) & set(BANNED) for one in best)]
        barred = {"disable_unk": True, "suppress_sequences": [[self.target[PAD]], [self.target[BOS]]]}
        again = self.search([sources[i] for i in odd], beam_size, length_penalty, n_best, barred)
        for i, best in zip(odd, again, strict=True):
            found[i] = self.rescored(sources[i], best, length_penalty)
        return found

    def rescored(self, source: Sequence[int], best: list[Hypothesis], length_penalty: float) -> list[Hypothesis]:
        """Outputs with the log-probabilities that they have where nothing is barred, best first."""
        pieces = [[self.source[token] for token in source[:-1]]] * len(best)
        outputs = [[self.target[token] for token in one.tokens if token != EOS] for one in best]  # it adds the end
        scored = self.translator.score_batch(pieces, outputs, max_input_length=0)
        totals = [sum(score.log_probs[: len(one.tokens)]) for score, one in zip(scored, best, strict=True)]
        found = [
            Hypothesis(one.tokens, total, total / len(one.tokens) ** length_penalty)
            for one, total in zip(best, totals, strict=True)
        ]
        return sorted(found, key=lambda one: -one.score)

    def search(
        self,
        sources: Sequence[Sequence[int]],
        beam_size: int,
        length_penalty: float,
        n_best: int,
        barred: dict[str, Any],
    ) -> list[list[Hypothesis]]:
        settings, longest, width = self.settings, self.manifest.longest, max(beam_size, n_best)
        waiting: list[tuple[list[int], list[Any]]] = []
        for group in by_length(sources, settings.batch_sentences, longest):
            limit = min(len(sources[group[0]]) + settings.extra_length, longest)
            pieces = [[self.source[token] for token in sources[i][:-1]] for i in group]  # it adds the end symbol
            answers = self.translator.translate_batch(
                pieces, asynchronous=True, beam_size=width, num_hypotheses=n_best, length_penalty=length_penalty,
                patience=settings.patience if width > 1 else 1, min_decoding_length=0, max_decoding_length=limit,
                max_input_length=0, return_scores=True, return_end_token=True, **barred,
            )  # fmt: skip
            waiting.append((group, answers))
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for group, answers in waiting:
            for i, answer in zip(group, answers, strict=True):
                found[i] = list(self.hypotheses(answer.result(), length_penalty))
        return found

    def hypotheses(self, answer: Any, length_penalty: float) -> Iterator[Hypothesis]:
        for pieces, score in zip(answer.hypotheses, answer.scores, strict=True):
            yield Hypothesis([self.numbers[piece] for piece in pieces], score * len(pieces) ** length_penalty, score)


class OnnxEngine:
    """Our search over the two graphs of an exported folder, run by onnxruntime."""

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self.settings, self.manifest = settings or Settings(), Manifest.open(folder)
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

    def translate(
        self, sources: Sequence[Sequence[int]], beam_size: int = 4, length_penalty: float = 0.6, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        options = SearchOptions(
            start=SYMBOLS[self.manifest.model.start], end=EOS, beam_size=max(beam_size, n_best), n_best=n_best,
            length_penalty=length_penalty, normalization="power", banned=BANNED,
        )  # fmt: skip
        longest = self.manifest.longest
        found: list[list[Hypothesis]] = [[] for _ in sources]
        for i, source in enumerate(sources):
            if len(source) > longest:
                raise RegardError(f"Sentence {i + 1} has {len(source)} tokens, and the export positions for {longest}.")
        for group in in_order_of_length([len(source) for source in sources], self.settings.batch_sentences):
            batch = [sources[i] for i in group]
            limits = [min(len(source) + self.settings.extra_length, longest) for source in batch]
            step = OnnxStep(self.encoder, self.decoder, batch, options.beam_size)
            for i, hypotheses in zip(group, search(step, limits, options, torch.device("cpu")), strict=True):
                found[i] = hypotheses
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

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self.settings, self.manifest = settings or Settings(), Manifest.open(folder)
        transformers = needed("transformers", "hf")
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        self.model = transformers.MarianMTModel.from_pretrained(folder).eval().to(self.settings.device)

    @torch.inference_mode()
    def translate(
        self, sources: Sequence[Sequence[int]], beam_size: int = 4, length_penalty: float = 0.6, n_best: int = 1
    ) -> list[list[Hypothesis]]:
        found: list[list[Hypothesis]] = [[] for _ in sources]
        width, longest = max(beam_size, n_best), self.manifest.longest
        for group in by_length(sources, self.settings.batch_sentences, longest):
            src = torch.tensor([sources[i] for i in group], device=self.model.device)
            limit = min(src.shape[1] + self.settings.extra_length, longest)
            more = {"early_stopping": "never", "length_penalty": length_penalty} if width > 1 else {}
            answer = self.model.generate(
                src, attention_mask=torch.ones_like(src), num_beams=width, num_return_sequences=n_best, do_sample=False,
                max_length=None, max_new_tokens=limit, return_dict_in_generate=True, output_scores=True,
                output_logits=width == 1, **more,
            )  # fmt: skip
            rows = [cut(row[1:]) for row in answer.sequences.tolist()]
            scores = answer.sequences_scores.tolist() if width > 1 else greedy_scores(answer, rows, length_penalty)
            for j, (tokens, score) in enumerate(zip(rows, scores, strict=True)):
                log_prob = score * len(tokens) ** length_penalty
                found[group[j // n_best]].append(Hypothesis(tokens, log_prob, score))
        return found


def cut(tokens: list[int]) -> list[int]:
    """An output without what fills it up behind its end."""
    return tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens


def greedy_scores(answer: Any, rows: list[list[int]], length_penalty: float) -> list[float]:
    """What transformers leaves out of greedy search: the log-probabilities of the tokens, before any was barred."""
    steps = torch.stack([logits.float().log_softmax(-1) for logits in answer.logits], dim=1)  # (B, T, V)
    totals = [float(steps[i, range(len(tokens)), tokens].sum()) for i, tokens in enumerate(rows)]
    return [total / len(tokens) ** length_penalty for total, tokens in zip(totals, rows, strict=True)]
