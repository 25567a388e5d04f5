"""GEPA on the clerk's task. GEPA is the library of the paper that introduced this search."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from agentkit.evals import Case
from agentkit.messages import Request, UserMessage
from benchmarks.optimising import clerk

PART = "instruction"


class Adapter:
    """GEPA adapter that runs the clerk and counts its answers."""

    propose_new_texts = None

    def __init__(self, batch_kind: Any) -> None:
        self.answers, self._batch_kind = 0, batch_kind

    def evaluate(self, batch: Sequence[Case], candidate: Mapping[str, str], capture_traces: Any = False) -> Any:
        """Evaluate a candidate on some cases."""
        self.answers += len(batch)
        answers = [clerk.clerk(Request([UserMessage(case.text)], candidate[PART])) for case in batch]
        pairs = zip(batch, answers, strict=True)
        scores = [clerk.noted(case, SimpleNamespace(output=answer)).value for case, answer in pairs]
        traces = list(zip(batch, answers, scores, strict=True)) if capture_traces else None
        return self._batch_kind(outputs=answers, scores=scores, trajectories=traces)

    def make_reflective_dataset(self, _candidate: Any, evaluated: Any, parts: Sequence[str]) -> dict[str, Any]:
        """The failures, with the same fields as agentkit's proposer receives."""
        failed = [(case, answer) for case, answer, score in evaluated.trajectories if score < 1]
        shown = [{"Prompt": case.text, "Answer": answer, "Expected": case.expected} for case, answer in failed]
        return dict.fromkeys(parts, shown)


def propose(candidate: Mapping[str, str], shown: Mapping[str, Any], parts: Sequence[str]) -> dict[str, str]:
    """Propose a text with the reader, or the same text if the reader has no proposal."""
    cases = "\n\n".join("\n".join(f"{name}: {text}" for name, text in each.items()) for each in shown[PART])
    asked = f"<text>\n{candidate[PART]}\n</text>\n\n{cases}"
    answer = clerk.reader(Request([UserMessage(asked)]))
    text = (
        answer.split("<new_text>\n", 1)[-1].split("\n</new_text>", 1)[0] if "<new_text>" in answer else candidate[PART]
    )
    return dict.fromkeys(parts, text)


def found(seed: int, train: Sequence[Case], most_answers: int) -> tuple[str, int]:
    """The best instruction that GEPA finds, and the number of the clerk's answers until then."""
    gepa, adapters = import_module("gepa"), import_module("gepa.core.adapter")
    adapter = Adapter(adapters.EvaluationBatch)
    with contextlib.redirect_stdout(io.StringIO()):
        result = gepa.optimize(
            seed_candidate={PART: clerk.START},
            trainset=list(train),
            valset=list(train),
            adapter=adapter,
            custom_candidate_proposer=propose,
            reflection_minibatch_size=6,
            max_metric_calls=most_answers,
            stop_callbacks=lambda state: max(state.program_full_scores_val_set) >= 1,
            seed=seed,
        )
    return result.best_candidate[PART], adapter.answers
