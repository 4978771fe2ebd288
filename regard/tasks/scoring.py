"""All scores of a translator on a corpus."""

from __future__ import annotations

import math
from dataclasses import dataclass

from regard.data.corpus import Corpus
from regard.decode.translator import Translation, Translator
from regard.evaluate.alignment import alignment_error_rate
from regard.evaluate.bleu import Score, bleu, chrf, exact_match
from regard.tasks.translation import Pairs, score_pairs, within


@dataclass(frozen=True)
class Evaluation:
    """A corpus translated and scored."""

    corpus: Corpus
    translations: list[Translation]
    scores: list[Score]

    def __getitem__(self, name: str) -> Score:
        return next(score for score in self.scores if score.name == name)


def evaluate(translator: Translator, corpus: Corpus, batch_tokens: int = 4_000) -> Evaluation:
    """BLEU and chrF on raw text, exact match, perplexity of the references, and, where the corpus knows its
    word alignments, the error rate of those read off cross-attention."""
    translations = [best[0] for best in translator.search(corpus.source)]
    texts = [translation.text for translation in translations]
    scores = score_texts(texts, corpus.target)
    pairs = Pairs.encode(translator.tokenizers, corpus)
    fitting, too_long = within(pairs, translator.model.longest)
    nll, n_tokens = score_pairs(translator.model, fitting, batch_tokens, translator.device)
    note = f", {len(too_long)} pairs beyond the model's positions left out" if too_long else ""
    scores.append(Score("perplexity", math.exp(nll / n_tokens), signature=f"per subword{note}"))
    if corpus.alignments is not None:
        # The truth is known for the reference's words, so the reference is what must be aligned.
        references = [
            Translation(source, target, 0.0, 0.0, pairs.source[i].tolist(), pairs.target[i].tolist())
            for i, (source, target) in enumerate(zip(corpus.source, corpus.target, strict=True))
        ]
        scores.append(alignment_error_rate(translator.align(references), corpus.alignments))
    return Evaluation(corpus, translations, scores)


def score_texts(texts: list[str], references: list[str]) -> list[Score]:
    return [bleu(texts, references), chrf(texts, references), exact_match(texts, references)]
