"""transformers as an engine, for the Marian format."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from regard.config import DecodeConfig
from regard.data.tokenizer import EOS
from regard.decode.engine import Progress
from regard.decode.state import Hypothesis
from regard.export.engines.exported import Exported, Settings, alike, needed, ranked


class TransformersEngine(Exported):
    """transformers' MarianMT on an exported folder; its beam told to lose nothing by stopping early."""

    name = "transformers"

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        super().__init__(folder, settings)
        transformers = needed("transformers", "hf")
        transformers.logging.set_verbosity_error()
        transformers.logging.disable_progress_bar()
        self.model = transformers.MarianMTModel.from_pretrained(folder).eval().to(self.settings.device)

    @torch.inference_mode()
    def decode(
        self, sources: list[list[int]], n_best: int, config: DecodeConfig, progress: Progress = None
    ) -> list[list[Hypothesis]]:
        self.check_lengths(sources)
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
