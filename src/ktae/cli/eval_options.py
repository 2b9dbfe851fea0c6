"""The options of `ktae eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ktae.cli.options import one_of

ENGINES = ("transformers", "vllm")
TEMPLATES = ("chat", "qwen-math", "plain")

Model = Annotated[
    str | None,
    typer.Argument(metavar="MODEL", help="The model: a folder, or a name on the Hugging Face hub."),
]
Regrade = Annotated[
    Path | None,
    typer.Option(
        metavar="INPUT",
        help="Grade saved outputs instead: a folder of ktae eval, or whatever ktae report reads, "
        "with reference answers.",
    ),
]
Benchmarks = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Take these benchmarks, with commas between: aime24, aime25, math500, amc, amc23, "
        "minerva, olympiadbench, gsm8k [default: the paper's five; with --regrade all that are in "
        "the file].",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Read the benchmarks' files from this folder [default: the hub]."
    ),
]
RecipeFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Take the held-out problems of this recipe's task instead of benchmarks, with its "
        "prompts and its grader.",
    ),
]
RecipeSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="With --recipe, replace one of its keys, such as rollout.max_response_length=512. Can "
        "be given several times.",
    ),
]
Problems = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="With --recipe, take so many problems [default: the recipe's].",
    ),
]
Samples = Annotated[
    int, typer.Option(min=1, metavar="N", help="Draw so many responses to each problem.")
]
Temperature = Annotated[
    float, typer.Option(min=0, metavar="T", help="Sample at this temperature; 0 is greedy.")
]
MaxNewTokens = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Cut responses off after so many tokens [default: 3000; with --recipe the recipe's].",
    ),
]
Template = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        autocompletion=one_of(TEMPLATES),
        help="Write prompts in this form: chat (the tokenizer's own), qwen-math (the paper's) or "
        "plain [default: chat; with --recipe the recipe's prompts].",
    ),
]
EngineName = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        autocompletion=one_of(ENGINES),
        help="Generate with this engine: transformers or vllm.",
    ),
]
BatchSize = Annotated[
    int | None,
    typer.Option(
        min=1, metavar="N", help="Generate so many responses at once [default: 32, with vllm 512]."
    ),
]
Seed = Annotated[int, typer.Option(min=0, metavar="N", help="Sample with this seed.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FOLDER",
        help="Write everything to this folder; an unfinished evaluation in it is continued "
        "[default: evals/MODEL; with --regrade nothing is written].",
    ),
]
TokenizerName = Annotated[
    str | None,
    typer.Option(
        metavar="PATH_OR_NAME",
        help="With --regrade, count the lengths that the file does not hold with this tokenizer: a "
        "folder, or a name on the Hugging Face hub.",
    ),
]
Graders = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Grade with these, with commas between: ktae, ktae-boxed, ktae-last, math-verify, "
        "strict-boxed, stored. The first one's verdicts count; with several, a table shows where "
        "they disagree [default: ktae; with --recipe the task's own].",
    ),
]
Partial = Annotated[
    bool,
    typer.Option("--partial", help="With --regrade, let problems be missing or unbalanced."),
]
TimeLimit = Annotated[
    float,
    typer.Option(
        metavar="SECONDS",
        help="Give up on grading an output after so many processor seconds; it is undecided.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(min=1, metavar="N", help="Grade in so many processes [default: one a processor]."),
]
Show = Annotated[
    int, typer.Option(min=0, metavar="N", help="Print at most so many differing verdicts.")
]
