"""Is credit true on real tokens? Advantages by continuation on SmolLM2-135M's sums.

    python benchmarks/real_tokens.py sample MODEL    # needs ktae[gym,trl] and `make smollm2`
    python benchmarks/real_tokens.py score [-e NAME ...]    # from the committed samples alone

`sample` draws groups of 8 responses at temperature 1 to the problems of recipes/smollm2/grpo.yaml
whose numbers have one digit, keeps mixed groups (correct and incorrect responses), and estimates V
of every prefix of every response by 32 continuations, drawn by the model itself: two
independent halves of 16. A continuation of a prefix that goes on like a response also
counts for the next prefix, whatever its outcome, so values are unbiased and differences of
neighbours vary less. The advantage of a token is V(prefix and token) less V(prefix); after the last
token V is the verdict. It can be stopped and goes on after the last complete group.

`score` compares the credit of estimators with these advantages (`token_scores.py`): rank
correlation, average precision and sign at key tokens, and the share of what exact advantages would
add to the cosine of the batch's policy gradient with the gradient of exact advantages at the same
tokens, in logits of a table by prefix. New estimators need no model.
"""

import argparse
import copy
import csv
import itertools
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import token_scores as scores
from estimator import append_rows, machine, write_rows

from ktae import preset
from ktae.estimators import PermutedLabels, RandomPlaces, as_estimator

RESULTS = Path(__file__).parent / "results"
SAMPLES = RESULTS / "real_tokens_samples.csv"
RECIPE = Path(__file__).parents[1] / "recipes/smollm2/grpo.yaml"
ESTIMATORS = (
    "backoff",
    "paper",
    "calibrated",
    "trigrams",
    "sharp-trigrams",
    "conflict-tokens",
    "tempo",
)
MEASURES, SUFFIXES = ("rank", "precision", "sign", "share", "best_share"), ("", "_low", "_high")
DRAWS = 5
"""Of each control."""
OVERRIDES = ("steps=200", "rollout.max_response_length=12")
"""More problems, since few groups are mixed; and 12 tokens for 16: half of the continuations."""
ONE_DIGIT = re.compile(r": \d [+-] \d =$")
"""Problems that the model is at times right about; with larger numbers few groups are mixed."""
ROWS_AT_ONCE = 256
Ids = tuple[int, ...]
HALF = 16
"""Continuations of each prefix in each half."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    sample_ = commands.add_parser("sample", help="draw groups and continuations")
    sample_.add_argument("model", type=Path)
    sample_.add_argument("--groups", type=int, default=30, help="mixed groups in the file at last")
    sample_.add_argument("--samples", type=Path, default=SAMPLES)
    sample_.add_argument("--shard", nargs=2, type=int, default=(0, 1), metavar=("I", "N"))
    score_ = commands.add_parser("score", help="compare credit with the samples' advantages")
    score_.add_argument("-e", "--estimators", nargs="+", metavar="NAME", default=ESTIMATORS)
    score_.add_argument("--samples", type=Path, nargs="+", default=[SAMPLES])
    score_.add_argument("--resamples", type=int, default=400)
    score_.add_argument("--csv", type=Path, help="also write the table")
    arguments = parser.parse_args()
    if arguments.command == "sample":
        sample(arguments.model, arguments.groups, arguments.samples, arguments.shard)
        return
    samples = [row for path in arguments.samples for row in read_rows(path)]
    rows = score(samples, arguments.estimators, arguments.resamples)
    print("{groups} groups, {tokens} tokens, {key_tokens} key tokens".format(**rows[0]))
    print(f"{'':16s}", *(f"{measure:23s}" for measure in MEASURES), "weight")
    for row in rows:
        spans = ["{} ({} to {})".format(*(row[m + x] for x in SUFFIXES)) for m in MEASURES]
        print(f"{row['estimator']:16s}", *(f"{span:23s}" for span in spans), row["best_weight"])
    if arguments.csv:
        write_rows(arguments.csv, [row | machine() for row in rows])


def score(
    samples: Sequence[dict[str, str]], names: Sequence[str], resamples: int
) -> list[dict[str, str]]:
    """A row for GRPO, controls, each estimator and exact advantages.

    Of GRPO's own row the first columns judge its rollout advantages themselves. Controls are of
    `paper`, the mean over several draws.
    """
    by_group: dict[str, list[dict[str, str]]] = {}
    for row in samples:
        by_group.setdefault(row["group"], []).append(row)
    groups = [scores.group_of(rows) for rows in by_group.values()]
    exact = scores.exact_row(groups)
    nothing = [np.zeros(len(group.grpo)) for group in groups]
    grpo = np.concatenate([group.grpo for group in groups])
    table = {"grpo": [scores.row_of(groups, nothing)._replace(pointing=(grpo, grpo))]}
    paper = preset("paper")
    for name, control in (("random places", RandomPlaces), ("permuted labels", PermutedLabels)):
        drawn = [scores.credits(groups, control(paper, seed=seed)) for seed in range(DRAWS)]
        table[name] = [scores.row_of(groups, credit) for credit in drawn]
    for name in names:
        table[name] = [scores.row_of(groups, scores.credits(groups, as_estimator(name)))]
    table["exact"] = [exact]
    n_tokens = sum(len(group.grpo) for group in groups)
    n_keys = sum(key.sum() for group in groups for key in group.keys) / 2
    sizes = {"groups": len(groups), "tokens": n_tokens, "key_tokens": n_keys}
    rows = []
    for name, several in table.items():

        def measure(drawn: Any, several: list[Any] = several) -> dict[str, float]:
            every = [scores.scores(groups, row, exact, drawn) for row in several]
            return {key: float(np.mean([each[key] for each in every])) for key in every[0]}

        measured = scores.with_intervals(measure, len(groups), resamples)
        rows.append({"estimator": name} | {k: str(v) for k, v in sizes.items()} | measured)
    return rows


def sample(folder: Path, n_groups: int, path: Path, shard: Sequence[int]) -> None:
    """Append mixed groups to the samples until there are so many; each has its own seed.

    Processes with a file each can share the work: each takes the I-th of every N problems.
    """
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from ktae.experiments import recipe
    from ktae.experiments.tasks import task_of

    torch.set_num_threads(1)
    settings = recipe.load(RECIPE, OVERRIDES)
    task = task_of(settings)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    done = [int(row["group"]) for row in read_rows(path)] if path.is_file() else []
    n_mixed, rows_of_task = len(set(done)), task.train_rows()
    for group in range(max(done, default=-1) + 1, len(rows_of_task)):
        if n_mixed >= n_groups:
            return
        messages: Any = rows_of_task[group].prompt
        question = messages[-1]["content"]
        if group % shard[1] != shard[0] or not ONE_DIGIT.search(question):
            continue
        torch.manual_seed(group)
        policy = Policy(model, tokenizer, settings, rows_of_task[group])
        if rows := policy.group_rows(group):
            append_rows(path, rows)
            n_mixed += 1
        print(f"problem {group}: {n_mixed} mixed groups", flush=True)


class Policy:
    """A model, and one problem that it answers."""

    def __init__(self, model: Any, tokenizer: Any, recipe: Any, problem: Any):
        import torch

        self.prompt = tokenizer.apply_chat_template(
            problem.prompt, add_generation_prompt=True, return_dict=False
        )
        self.model, self.tokenizer, self.recipe, self.problem = model, tokenizer, recipe, problem
        with torch.inference_mode():  # the prompt is read once, but for its last token
            self.cache = model(torch.tensor([self.prompt[:-1]])).past_key_values
        self.verdicts: dict[str, bool] = {}

    def continued(self, prefixes: Sequence[Ids], repeats: Sequence[int]) -> list[list[Ids]]:
        """So many continuations of each prefix of a response, at temperature 1; the prefixes are
        equally long. An end token is included."""
        import torch

        rows = [
            self.prompt + list(prefix)
            for prefix, n in zip(prefixes, repeats, strict=True)
            for _ in range(n)
        ]
        end, width = self.tokenizer.eos_token_id, len(self.prompt) + len(prefixes[0])
        made: list[Ids] = []
        for start in range(0, len(rows), ROWS_AT_ONCE):
            ids = torch.tensor(rows[start : start + ROWS_AT_ONCE])
            cache = copy.deepcopy(self.cache)
            cache.batch_repeat_interleave(len(ids))
            out = self.model.generate(
                ids,
                past_key_values=cache,
                attention_mask=torch.ones_like(ids),
                do_sample=True,
                temperature=1.0,
                top_k=0,
                top_p=1.0,
                max_new_tokens=self.recipe.rollout.max_response_length - len(prefixes[0]),
                eos_token_id=end,
                pad_token_id=end,
            )
            for new in out[:, width:].tolist():
                made.append(tuple(new[: new.index(end) + 1] if end in new else new))
        bounds = np.cumsum([0, *repeats])
        return [made[begin:stop] for begin, stop in itertools.pairwise(bounds)]

    def is_correct(self, ids: Sequence[int]) -> bool:
        """Whether a response is right, by the task's own grader."""
        from ktae.experiments.tasks import task_of
        from ktae.grading import Outcome

        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        if text not in self.verdicts:
            verdict = task_of(self.recipe).grade([text], [self.problem.reference], [True])[0]
            self.verdicts[text] = verdict.outcome is Outcome.CORRECT
        return self.verdicts[text]

    def values(self, responses: list[Ids]) -> dict[Ids, Ids]:
        """For each prefix how many continuations of each half are right, and how many there are."""
        halves: list[dict[Any, list[Ids]]] = [{}, {}]
        # The nodes of the prefix tree at which a token was chosen.
        prefixes = sorted(
            {ids[:length] for ids in responses for length in range(len(ids))}, key=len
        )
        for length in range(max(map(len, responses))):
            nodes = [prefix for prefix in prefixes if len(prefix) == length]
            for half in halves:
                for node in nodes:  # those of the parent that happen to go on like this
                    before = half.get(node[:-1], []) if node else []
                    half[node] = [ids[1:] for ids in before if ids[:1] == node[-1:]]
            missing = {node: [max(0, HALF - len(half[node])) for half in halves] for node in nodes}
            drawn = self.continued(nodes, [sum(missing[node]) for node in nodes])
            for node, new in zip(nodes, drawn, strict=True):
                halves[0][node] += new[: missing[node][0]]
                halves[1][node] += new[missing[node][0] :]
        counts: dict[Ids, Ids] = {}
        for node in prefixes:
            right = [[self.is_correct(node + ids) for ids in half[node]] for half in halves]
            counts[node] = (sum(right[0]), len(right[0]), sum(right[1]), len(right[1]))
        return counts

    def group_rows(self, group: int) -> list[dict[str, Any]]:
        """A row for each token of a group's responses; none if the group is not mixed."""
        responses = self.continued([()], [self.recipe.rollout.group_size])[0]
        correct = [self.is_correct(ids) for ids in responses]
        if len(set(correct)) == 1:
            return []
        values, rows = self.values(responses), []
        question = self.problem.prompt[-1]["content"].split(": ")[-1]
        for number, (ids, right) in enumerate(zip(responses, correct, strict=True)):
            for position, numbers in enumerate(self.distributions(ids)):
                place = {"group": group, "problem": question, "response": number}
                token: dict[str, Any] = {"position": position, "token_id": ids[position]}
                token["token"] = json.dumps(self.tokenizer.decode([ids[position]]))
                counts = values[ids[:position]]
                rows.append(
                    place
                    | token
                    | {"correct": int(right)}
                    | numbers
                    | dict(zip(("right_a", "n_a", "right_b", "n_b"), counts, strict=True))
                )
        return rows

    def distributions(self, ids: Ids) -> list[dict[str, str]]:
        """For each token its log-probability, the entropy there, and the sum of squares."""
        import torch

        with torch.inference_mode():
            logits = self.model(torch.tensor([[*self.prompt, *ids[:-1]]])).logits[0].float()
        log_probs = logits[len(self.prompt) - 1 :].log_softmax(dim=-1)
        probs, at = log_probs.exp(), torch.tensor(ids)[:, None]
        columns = {
            "log_prob": log_probs.gather(1, at)[:, 0],
            "entropy": torch.special.entr(probs).sum(dim=1),
            "squares": (probs**2).sum(dim=1),
        }
        return [
            {name: f"{float(column[t]):.4g}" for name, column in columns.items()}
            for t in range(len(ids))
        ]


def read_rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


if __name__ == "__main__":
    main()
