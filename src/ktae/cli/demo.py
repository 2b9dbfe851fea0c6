"""`ktae demo`: the embedded language of sums and its base model."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    help="The embedded demo: a tiny language of sums and a base model that solves some of them.",
    no_args_is_help=True,
)


@app.command()
def pretrain(
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another base model.")] = 0,
    output: Annotated[
        Path | None, typer.Option(help="A new folder for the model. [default: in the cache]")
    ] = None,
) -> None:
    """Pretrain the base model, about a minute once, and say where it is and how well it does."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from ktae.demo.evaluate import evaluate
    from ktae.demo.language import test_problems
    from ktae.demo.pretrain import base_model, write_base_model
    from ktae.errors import InputError

    started = time.perf_counter()
    if output is None:
        folder = base_model(seed)
    elif output.exists():
        raise InputError(f"{output} exists; name a folder that does not")
    else:
        folder = output
        write_base_model(folder, seed)
    pretrained = time.perf_counter()
    model = AutoModelForCausalLM.from_pretrained(folder)
    problems = test_problems()
    scores = evaluate(model, AutoTokenizer.from_pretrained(folder), problems, seed=0)
    typer.echo(f"base model   {folder}")
    typer.echo(f"greedy       {scores.greedy_accuracy:.1%} of {len(problems)} test problems")
    typer.echo(
        f"sampled      {scores.sampled_accuracy:.1%}, {scores.sampled_length:.0f} tokens each"
    )
    typer.echo(
        f"time         {pretrained - started:.0f} s for the model, "
        f"{time.perf_counter() - pretrained:.0f} s for the scores"
    )


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
