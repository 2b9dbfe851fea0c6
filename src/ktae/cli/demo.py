"""`ktae demo`: the embedded language of sums and its base model."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Annotated

import typer

from ktae.errors import InputError

app = typer.Typer(
    help="The embedded demo: a tiny language of sums and a base model that solves some of them.",
    no_args_is_help=True,
)


@app.command()
def pretrain(
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another base model.")] = 0,
    output: Annotated[
        Path | None, typer.Option(help="A new folder for the model (default: in the cache).")
    ] = None,
) -> None:
    """Pretrain the base model, about a minute once, and say where it is and how well it does."""
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
        folder = base_model(seed)
    else:
        folder = output
        write_base_model(folder, seed)
    typer.echo(f"base model  {folder}  ({time.perf_counter() - started:.0f} s)")
    _print_scores(folder)


def _print_scores(folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    from ktae.demo.evaluate import evaluate
    from ktae.demo.language import test_problems

    logging.disable_progress_bar()  # one about loading 20 weights
    started = time.perf_counter()
    model = AutoModelForCausalLM.from_pretrained(folder)
    problems = test_problems()
    scores = evaluate(model, AutoTokenizer.from_pretrained(folder), problems, seed=0)
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
    n: Annotated[int, typer.Option("-n", min=1, help="Problems to show.")] = 3,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, other problems.")] = 0,
) -> None:
    """Show problems and worked solutions as the base model learns them, mistakes included."""
    from ktae.demo.language import extract_answer, train_problems, worked_solution

    rng = random.Random(seed)
    for problem in train_problems(n, seed):
        solution = worked_solution(problem, rng)
        verdict = "right" if extract_answer(solution) == problem.answer else "wrong"
        typer.echo(f"problem   {problem.prompt}")
        typer.echo(f"solution  {solution}")
        typer.echo(f"answer    {problem.answer}, so the solution is {verdict}\n")
