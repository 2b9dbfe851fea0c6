"""The options of `ktae eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[str | None, typer.Argument(help="Model folder or Hugging Face name.")]
Regrade = Annotated[
    Path | None,
    typer.Option(
        metavar="INPUT",
        help="Grade saved outputs instead: whatever ktae report reads, with reference answers, or "
        "a folder of ktae eval.",
    ),
]
Benchmarks = Annotated[
    str | None,
    typer.Option(
        help="Comma-separated: aime24, aime25, math500, amc, amc23, minerva, olympiadbench, "
        "gsm8k [default: the paper's five; with --regrade all that are in the file]."
    ),
]
Data = Annotated[
    Path | None, typer.Option(help="Folder with the benchmarks' files [default: the hub].")
]
RecipeFile = Annotated[
    Path | None,
    typer.Option(
        metavar="RECIPE",
        help="Instead of benchmarks: the held-out problems of a recipe's task, with its prompts "
        "and its grader.",
    ),
]
Problems = Annotated[
    int | None,
    typer.Option(min=1, help="With --recipe: how many problems [default: the recipe's]."),
]
Samples = Annotated[int, typer.Option(min=1, help="Responses to each problem.")]
Temperature = Annotated[float, typer.Option(min=0, help="0 is greedy.")]
MaxNewTokens = Annotated[
    int | None,
    typer.Option(min=1, help="Longest response [default: 3000; with --recipe the recipe's]."),
]
Template = Annotated[
    str | None,
    typer.Option(
        help="chat (the tokenizer's own), qwen-math (the paper's) or plain [default: chat; with "
        "--recipe the recipe's prompts]."
    ),
]
EngineName = Annotated[str, typer.Option(help="transformers or vllm.")]
BatchSize = Annotated[
    int | None, typer.Option(min=1, help="Responses at once [default: 32, with vllm 512].")
]
Seed = Annotated[int, typer.Option(min=0, help="Of the sampling.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Folder for everything; an unfinished evaluation in it is continued "
        "[default: evals/MODEL; with --regrade none].",
    ),
]
TokenizerName = Annotated[
    str | None,
    typer.Option(help="With --regrade: counts the lengths that the file does not hold."),
]
Graders = Annotated[
    str | None,
    typer.Option(
        help="Comma-separated; with several, a table of where they disagree: ktae, ktae-boxed, "
        "ktae-last, math-verify, strict-boxed, stored. The first one's verdicts count [default: "
        "ktae; with --recipe the task's own]."
    ),
]
Partial = Annotated[
    bool,
    typer.Option("--partial", help="With --regrade: problems may be missing or unbalanced."),
]
TimeLimit = Annotated[float, typer.Option(help="Processor seconds to grade one output.")]
Workers = Annotated[
    int | None, typer.Option(min=1, help="Grading processes [default: one a processor].")
]
Show = Annotated[int, typer.Option(min=0, help="Differing verdicts to print.")]
