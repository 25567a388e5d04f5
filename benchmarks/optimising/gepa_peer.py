"""How does GEPA do on the clerk's task? It is the library of the paper that first searched like this."""

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
    """Runs the clerk for GEPA, and counts its answers."""

    propose_new_texts = None

    def __init__(self, batch_kind: Any) -> None:
        self.answers, self._batch_kind = 0, batch_kind

    def evaluate(self, batch: Sequence[Case], candidate: Mapping[str, str], capture_traces: Any = False) -> Any:
        """The answers and scores of some cases with a candidate."""
        self.answers += len(batch)
        answers = [clerk.clerk(Request([UserMessage(case.text)], candidate[PART])) for case in batch]
        pairs = zip(batch, answers, strict=True)
        scores = [clerk.noted(case, SimpleNamespace(output=answer)).value for case, answer in pairs]
        traces = list(zip(batch, answers, scores, strict=True)) if capture_traces else None
        return self._batch_kind(outputs=answers, scores=scores, trajectories=traces)

    def make_reflective_dataset(self, _candidate: Any, evaluated: Any, parts: Sequence[str]) -> dict[str, Any]:
        """What the proposer is shown: the failures, as ours is."""
        failed = [(case, answer) for case, answer, score in evaluated.trajectories if score < 1]
        shown = [{"Prompt": case.text, "Answer": answer, "Expected": case.expected} for case, answer in failed]
        return dict.fromkeys(parts, shown)


def propose(candidate: Mapping[str, str], shown: Mapping[str, Any], parts: Sequence[str]) -> dict[str, str]:
    """What the reader makes of the failures; the same text when it sees nothing."""
    cases = "\n\n".join("\n".join(f"{name}: {text}" for name, text in each.items()) for each in shown[PART])
    asked = f"<text>\n{candidate[PART]}\n</text>\n\n{cases}"
    said = clerk.reader(Request([UserMessage(asked)]))
    text = said.split("<new_text>\n", 1)[-1].split("\n</new_text>", 1)[0] if "<new_text>" in said else candidate[PART]
    return dict.fromkeys(parts, text)


def found(seed: int, train: Sequence[Case], most_answers: int) -> tuple[str, int]:
    """The best instruction that GEPA finds, and how many of the clerk's answers it took until it was found."""
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
