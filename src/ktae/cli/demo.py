"""`ktae demo`: the demo's languages and their base models."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktae.errors import InputError

if TYPE_CHECKING:
    from ktae.demo import Language

app = typer.Typer(
    help="The embedded demo: a tiny language, and base models that solve some of its problems.",
    no_args_is_help=True,
)

LanguageName = Annotated[
    str,
    typer.Option(
        "--language", help="sums (numbers), or lists and stories, which come with ktae-lab."
    ),
]


@app.command()
def pretrain(
    language: LanguageName = "sums",
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another base model.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="A new folder for the model [default: in the cache]."),
    ] = None,
) -> None:
    """Pretrain a base model, about a minute once, and say where it is and how well it does."""
    from ktae.demo import language_named

    speaks = language_named(language)
    if output is not None and output.exists():
        raise InputError(f"{output} exists already; name a new folder")
    try:
        from ktae.demo.pretrain import base_model, write_base_model
    except ModuleNotFoundError as error:
        raise InputError(
            f"pretraining needs {error.name}, which is not installed; pip install 'ktae[trl]'"
        ) from None
    started = time.perf_counter()
    if output is None:
        folder = base_model(speaks, seed)
    else:
        folder = output
        write_base_model(speaks, folder, seed)
    typer.echo(f"base model  {folder}  ({time.perf_counter() - started:.0f} s)")
    _print_scores(speaks, folder)


def _print_scores(language: Language[Any], folder: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    from ktae.demo.evaluate import evaluate

    logging.disable_progress_bar()  # one about loading 20 weights
    started = time.perf_counter()
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False)
    if language.size.for_gpu and torch.cuda.is_available():
        model = model.to("cuda")
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    problems = language.test_problems()
    scores = evaluate(language, model, tokenizer, problems, seed=0)
    for way, accuracy, length in (
        ("greedy", scores.greedy_accuracy, scores.greedy_length),
        ("sampled", scores.sampled_accuracy, scores.sampled_length),
    ):
        typer.echo(
            f"{way:10s}  {accuracy:.1%} of {len(problems)} test problems, {length:.0f} tokens each"
        )
    typer.echo(f"scored in   {time.perf_counter() - started:.0f} s")


@app.command()
def sample(
    language: LanguageName = "sums",
    n: Annotated[int, typer.Option("-n", min=1, help="Problems to show.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other problems.")] = 0,
) -> None:
    """Show problems and worked solutions as the base model learns them, mistakes included."""
    from ktae.demo import language_named

    speaks = language_named(language)
    rng = random.Random(seed)
    for problem in speaks.train_problems(n, seed):
        solution = speaks.worked_solution(problem, rng)
        typer.echo(f"problem   {problem.prompt}")
        typer.echo(f"solution  {solution}")
        verdict = _verdict(speaks, solution, problem.answer)
        typer.echo(f"answer    {problem.answer}, so the solution is {verdict}\n")


def _verdict(language: Language[Any], solution: str, answer: int | str) -> str:
    """`right`, or `wrong` and why, as the task counts it."""
    n_tokens = len(solution.split())  # every word is a token
    in_time = n_tokens <= language.max_response_length
    if language.is_correct(solution, answer, finished=in_time):
        return "right"
    if language.is_correct(solution, answer, finished=True):
        return f"wrong: {n_tokens} tokens, of at most {language.max_response_length}"
    found = language.extract_answer(solution)
    return "wrong: it has no answer" if found is None else f"wrong: it says {found}"
