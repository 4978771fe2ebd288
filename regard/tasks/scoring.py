"""All scores of a translator on a corpus, and its probability of given translations."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from regard.data.corpus import Corpus
from regard.data.tokenizer import SYMBOLS
from regard.decode.request import Translation
from regard.decode.translator import Translator
from regard.errors import RegardError
from regard.evaluate.alignment import alignment_error_rate
from regard.evaluate.bleu import Score
from regard.evaluate.texts import judge
from regard.models.encoder_decoder import EncoderDecoder
from regard.tasks.task import move
from regard.tasks.translation import Pairs, TranslationBatch, by_length, score_pairs, within
from regard.wording import counted


@dataclass(frozen=True)
class Evaluation:
    """A corpus translated and scored."""

    corpus: Corpus
    translations: list[Translation]
    scores: list[Score]

    def __getitem__(self, name: str) -> Score:
        return next(score for score in self.scores if score.name == name)


def evaluate(
    translator: Translator, corpus: Corpus, batch_tokens: int = 4_000, progress: Callable[[int], None] | None = None
) -> Evaluation:
    """The scores of the text it writes, and its own: `judge` and `model_scores`. `progress` hears how many sentences
    are translated."""
    translations = [best[0] for best in translator.search(corpus.source, progress=progress)]
    texts = [translation.text for translation in translations]
    scores = judge(texts, [corpus.target], language=corpus.language).scores
    return Evaluation(corpus, translations, scores + model_scores(translator, corpus, batch_tokens))


def model_scores(translator: Translator, corpus: Corpus, batch_tokens: int = 4_000) -> list[Score]:
    """What only the model can say: perplexity of the references, where it reads from left to right, and where the
    corpus knows its word alignments, the error rate of those read off cross-attention."""
    pairs, scores = Pairs.encode(translator.tokenizers, corpus), list[Score]()
    if translator.model.causal:
        fitting, too_long = within(pairs, translator.model.longest)
        nll, n_tokens = score_pairs(translator.model, fitting, batch_tokens, translator.device)
        note = f", {counted(len(too_long), 'pair')} beyond the model's positions left out" if too_long else ""
        scores.append(Score("perplexity", math.exp(min(nll / n_tokens, 700.0)), signature=f"per subword{note}"))
    if corpus.alignments is not None and translator.model.cross_attentions:
        # The truth is known for the reference's words, so the reference is what must be aligned.
        references = [
            Translation(source, target, 0.0, 0.0, pairs.source[i].tolist(), pairs.target[i].tolist())
            for i, (source, target) in enumerate(zip(corpus.source, corpus.target, strict=True))
        ]
        scores.append(alignment_error_rate(translator.align(references), corpus.alignments))
    return scores


@dataclass(frozen=True)
class PairScore:
    """What a model thinks of a given translation."""

    log_prob: float | None  # natural logarithm, of all tokens; None: the pair is beyond the model's positions
    tokens: int  # subwords of the target and its end

    @property
    def per_token(self) -> float | None:
        return None if self.log_prob is None else self.log_prob / self.tokens


def log_probs(
    translator: Translator, corpus: Corpus, batch_tokens: int = 4_000, progress: Callable[[int], None] | None = None
) -> list[PairScore]:
    """The model's log-probability of each given pair (forced decoding), in the order of the corpus."""
    if not translator.model.causal:
        raise RegardError(
            "--log-probs needs a model that reads from left to right: a masked one gives sentences no probability."
        )
    pairs, model = Pairs.encode(translator.tokenizers, corpus), translator.model
    found = [PairScore(None, int(length)) for length in pairs.target.lengths]
    done = 0
    for numbers in by_length(pairs, batch_tokens):
        fitting = numbers[pairs.lengths[numbers] <= model.longest]
        if len(fitting):
            batch = move(pairs.batch(fitting, "padded", SYMBOLS[model.config.start]), translator.device)
            lengths = pairs.target.lengths[fitting]
            ends = np.cumsum(lengths)
            totals = np.diff(np.concatenate([[0.0], np.cumsum(token_log_probs(model, batch))])[[0, *ends]])
            for i, total, length in zip(fitting, totals, lengths, strict=True):
                found[i] = PairScore(float(total), int(length))
        done += len(numbers)
        if progress:
            progress(done)
    return found


@torch.inference_mode()
def token_log_probs(model: EncoderDecoder, batch: TranslationBatch) -> np.ndarray:
    """Of each expected token, of all sentences end to end."""
    hidden = model.hidden(batch.src, batch.src_layout, batch.tgt, batch.tgt_layout)
    rows = zip(batch.tgt_layout.real(hidden).split(512), batch.expected.split(512), strict=True)  # of (n_tokens, D)
    parts = [-F.cross_entropy(model.output(part).float(), tokens, reduction="none") for part, tokens in rows]
    return torch.cat(parts).double().cpu().numpy()
