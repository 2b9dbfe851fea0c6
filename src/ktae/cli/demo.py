"""`ktae demo`: the demo's languages and their base models."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ktae.cli import options
from ktae.cli.printing import AsJson, Screen
from ktae.errors import InputError

if TYPE_CHECKING:
    from ktae.demo import Language

app = typer.Typer(
    help="Look at the embedded demo: a tiny language, and base models that solve some problems.",
    no_args_is_help=True,
)

LanguageName = Annotated[
    str,
    typer.Option(
        "--language",
        metavar="NAME",
        help="sums (numbers), or lists, which comes with ktae-lab.",
    ),
]


@app.command()
def pretrain(
    language: LanguageName = "sums",
    seed: Annotated[int, options.number(min=0, help="Of the pretraining.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", metavar="FOLDER", help="A new folder [default: in the cache]."
        ),
    ] = None,
    as_json: AsJson = False,
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
    screen = Screen(as_json)
    started = time.perf_counter()
    with screen.others_aside():
        folder = output or base_model(speaks, seed)
        if output is not None:
            write_base_model(speaks, output, seed)
        seconds = time.perf_counter() - started
        screen.print(f"base model  {folder}  ({seconds:.0f} s)")
        started = time.perf_counter()
        scores = _scores(speaks, folder)
    n = len(speaks.test_problems())
    for way in ("greedy", "sampled"):
        accuracy, length = getattr(scores, f"{way}_accuracy"), getattr(scores, f"{way}_length")
        screen.print(f"{way:10s}  {accuracy:.1%} of {n} test problems, {length:.0f} tokens each")
    screen.print(f"scored in   {time.perf_counter() - started:.0f} s")
    screen.end({"output": folder, "seconds": seconds, "problems": n, "scores": scores})


def _scores(language: Language[Any], folder: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils import logging

    from ktae.demo.evaluate import evaluate

    logging.disable_progress_bar()  # one about loading 20 weights
    model = AutoModelForCausalLM.from_pretrained(folder, trust_remote_code=False)
    if language.size.for_gpu and torch.cuda.is_available():
        model = model.to("cuda")
    tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    return evaluate(language, model, tokenizer, language.test_problems(), seed=0)


@app.command()
def sample(
    language: LanguageName = "sums",
    n: Annotated[int, options.number("-n", min=1, help="Problems shown.")] = 3,
    seed: Annotated[int, options.number(min=0, help="Of the problems.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Show problems and worked solutions as the base model learns them, mistakes included."""
    from ktae.demo import language_named

    speaks = language_named(language)
    screen = Screen(as_json)
    rng = random.Random(seed)
    samples = []
    for problem in speaks.train_problems(n, seed):
        solution = speaks.worked_solution(problem, rng)
        verdict = _verdict(speaks, solution, problem.answer)
        screen.print(f"problem   {problem.prompt}")
        screen.print(f"solution  {solution}")
        screen.print(f"answer    {problem.answer}, so the solution is {verdict}\n")
        samples.append(
            {"problem": problem.prompt, "solution": solution, "answer": problem.answer}
            | {"verdict": verdict}
        )
    screen.end(samples)


def _verdict(language: Language[Any], solution: str, answer: int | str) -> str:
    """`right`, or `wrong` and why, as the task counts it."""
    n_tokens = len(solution.split())  # every word is a token
    in_time = n_tokens <= language.max_response_length
    if language.is_correct(solution, answer, finished=in_time):
        return "right"
    if language.is_correct(solution, answer, finished=True):
        return f"wrong: {n_tokens} tokens, of at most {language.max_response_length}"
    stated = language.extract_answer(solution)
    return "wrong: it has no answer" if stated is None else f"wrong: it says {stated}"
