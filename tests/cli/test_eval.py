"""`ktae eval` and `ktae compare` as a user runs them."""

import csv
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("math_verify")

from ktae._version import __version__
from ktae.evaluation import outputs
from ktae.rollouts import record

ROOT = Path(__file__).resolve().parents[2]


Run = Callable[..., Any]


@pytest.fixture
def run(command: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "80")
    return command


def write_lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def cells(text: str, label: str) -> list[str]:
    (line,) = [line for line in text.splitlines() if line.strip().startswith(label)]
    return line.strip().removeprefix(label).split()


def rows(rights: list[int], reward: int | None = None) -> list[dict[str, Any]]:
    return [
        {
            "benchmark": "own",
            "group": f"own/{i}",
            "response": rf"\boxed{{{i + 1 - right}}}",
            "answer": str(i),
        }
        | ({} if reward is None else {"reward": reward})
        for i, right in enumerate(rights)
    ]


@pytest.fixture
def authors_file(shared_data: Path) -> Path:
    return shared_data / "rollouts" / "ktae_eval_7B_k1.jsonl.gz"


@pytest.mark.slow
def test_the_authors_row(run: Run, authors_file: Path, shared_data: Path) -> None:
    """Their accuracies as published, from the rewards in the file, and their mean lengths."""
    result = run(
        "eval", "--regrade", authors_file, "--graders", "stored",
        "--tokenizer", shared_data / "tokenizer_qwen2",
    )  # fmt: skip
    assert (result.status, result.err) == (0, "")
    published = ["33.3", "82.4", "65.1", "33.8", "43.7", "51.7"]
    assert cells(result.out, "in the file") == cells(result.out, "pass@1") == published
    assert cells(result.out, "problems") == ["30", "500", "83", "272", "675"]
    assert cells(result.out, "mean tokens")[:5] == ["941", "563", "741", "577", "771"]


@pytest.mark.slow
def test_ours_beside_the_authors_row(run: Run, authors_file: Path) -> None:
    """Where answers are numbers, which is quick to grade, there is no difference."""
    result = run("eval", "--regrade", authors_file, "--benchmarks", "amc,aime24", "--output", "out")
    assert (result.status, result.err) == (0, "")
    assert cells(result.out, "in the file") == ["33.3", "65.1", "49.2"]
    assert cells(result.out, "pass@1") == ["33.3", "65.1", "49.2"]
    results = json.loads(Path("out/results.json").read_text())
    assert list(results["benchmarks"]) == ["aime24", "amc"]
    assert results["benchmarks"]["aime24"]["accuracy"]["value"] == pytest.approx(1 / 3)
    assert results["differences"] == []


@pytest.mark.slow
def test_the_differences_are_the_documented_ones(run: Run, authors_file: Path) -> None:
    """Of the outputs that docs/grading.md lists, and their neighbours, exactly those differ.

    All 1,560 are graded by benchmarks/grading.py; one of the list takes the whole time limit.
    """
    listed = ROOT / "benchmarks" / "results" / "grading-differences.csv"
    with listed.open(newline="") as file:
        expected = {
            int(row["row"]): row["outcome"]
            for row in csv.DictReader(file)
            if row["file"] == "ktae_eval_7B_k1" and row["outcome"] != "undecided"
        }
    with gzip.open(authors_file, "rt", encoding="utf-8") as file:
        lines = file.readlines()
    near = sorted({row + step for row in expected for step in (0, 1)})
    Path("near.jsonl").write_text("".join(lines[row - 1] for row in near), encoding="utf-8")
    assert run("eval", "--regrade", "near.jsonl", "--partial", "--output", "out").status == 0
    found = json.loads(Path("out/results.json").read_text())["differences"]
    groups = [json.loads(lines[row - 1])["group"].split("/")[1] for row in expected]
    assert [d["problem"].split("/")[1] for d in found] == groups
    assert [d["outcome"] for d in found] == list(expected.values())


@pytest.mark.slow
def test_graders_disagree(run: Run, tmp_path: Path) -> None:
    content = [
        {"group": "own/0", "response": r"\boxed{\frac{1}{2}}", "answer": "0.5", "reward": 1},
        {"group": "own/1", "response": r"\boxed{7}", "answer": "7", "reward": 1},
        {"group": "own/2", "response": "so 6 and 7", "answer": "7", "reward": 0},
        {"group": "own/3", "response": "Answer: 7", "answer": r"\frac{", "reward": 0},
    ]
    file = write_lines(tmp_path / "a.jsonl", content)
    result = run(
        "eval", "--regrade", file, "--workers", 1, "--graders", "ktae,ktae-last,strict-boxed,stored"
    )
    assert result.status == 0
    counts, _, pairs = result.out.split("outputs by grader")[1].partition("outputs on which two")
    assert cells(counts.split("accuracy")[0], "ktae ") == ["2", "0", "1", "1"]
    assert cells(counts.split("accuracy")[0], "ktae-last") == ["3", "0", "0", "1"]
    assert cells(counts.split("accuracy")[0], "strict-boxed") == ["1", "1", "2", "0"]
    assert cells(pairs, "ktae-last") == ["1", "-", "3", "2"]
    assert "1 outputs on which the file's reward and our verdict differ" in result.out
    assert "own/3: 0 in the file, ours undecided (the accepted answer does not parse" in result.out


@pytest.mark.slow
def test_an_undecided_output_stays_undecided_in_its_record(run: Run, tmp_path: Path) -> None:
    """Not 0 "in the file" when the evaluation's own record is graded again."""
    broken = {"benchmark": "own", "group": "own/9", "response": r"\boxed{1}", "answer": r"\frac{"}
    file = write_lines(tmp_path / "a.jsonl", [*rows([1, 1]), broken])
    assert run("eval", "--regrade", file, "--output", "out", "--workers", 1).status == 0
    again = run("eval", "--regrade", "out", "--graders", "ktae,stored", "--workers", 1)
    assert (again.status, again.err) == (0, "")
    assert cells(again.out, "in the file") == ["100.0", "100.0"]
    assert "0 outputs on which the file's reward and our verdict differ" in again.out
    counts = again.out.split("outputs by grader")[1].split("accuracy")[0]
    assert cells(counts, "stored") == ["2", "0", "0", "1"]


@pytest.mark.slow
def test_an_undecided_sample_takes_no_column_away(run: Run, tmp_path: Path) -> None:
    """Eight samples to each of two problems; one of `b` is undecided. `c` has one sample."""
    wrong, right, broken = (
        {"response": r"\boxed{0}", "answer": "1"},
        {"response": r"\boxed{1}", "answer": "1"},
        {"response": r"\boxed{1}", "answer": r"\frac{"},
    )
    content = [
        {"benchmark": name, "group": i}
        | (broken if (name, i, j) == ("b", 1, 0) else right if i else wrong)
        for name in "ab"
        for i in range(2)
        for j in range(8)
    ]
    file = write_lines(tmp_path / "a.jsonl", content)
    result = run("eval", "--regrade", file, "--workers", 1, "--output", "out")
    assert (result.status, result.err) == (0, "")
    assert cells(result.out, "avg@8") == ["50.0"] * 3
    assert cells(result.out, "pass@4") == cells(result.out, "maj@k") == ["50.0"] * 3
    assert cells(result.out, "pass@8") == ["50.0", "0.0", "25.0"]
    assert "\nb: pass@8 is over 1 of 2 problems, those with 8 decided samples\n" in result.out
    assert "pass@7" not in result.out and "a: pass" not in result.out
    found = json.loads(Path("out/results.json").read_text())["benchmarks"]["b"]
    assert (found["samples"], found["pass_at"]["8"]["problems"]) == (8, 1)
    file = write_lines(tmp_path / "a.jsonl", [*content, {"benchmark": "c", "group": 0} | right])
    more = run("eval", "--regrade", file, "--workers", 1)
    assert cells(more.out, "pass@8") == ["50.0", "0.0", "-"]  # and no mean over two of three


@pytest.mark.slow
def test_who_graded_is_written(run: Run, tmp_path: Path) -> None:
    file = write_lines(tmp_path / "a.jsonl", rows([1, 0], reward=1))
    options = ("eval", "--regrade", file, "--workers", 1, "--output", "out")
    for graders, time_limit in (("strict-boxed,ktae", 3.5), ("stored", None)):
        assert run(*options, "--graders", graders, "--time-limit", time_limit or 5).status == 0
        first = graders.split(",")[0]
        grading = json.loads(Path("out/results.json").read_text())["grading"]
        assert grading == {"grader": first, "time_limit": time_limit, "ktae": __version__}
        assert {output.grader for output in outputs.read(Path("out"))} == {first}


@pytest.mark.slow
def test_different_graders_are_not_compared(run: Run, tmp_path: Path) -> None:
    """Whether both sides' verdicts are stored, or those of one are still to be made."""
    file = write_lines(tmp_path / "a.jsonl", rows([1, 0, 1], reward=1))
    for grader in ("ktae", "strict-boxed", "stored"):
        arguments = ("--graders", grader, "--workers", 1, "--output", grader)
        assert run("eval", "--regrade", file, *arguments).status == 0
        assert run("compare", grader, grader).status == 0
    refused = run("compare", "strict-boxed", "ktae")
    assert refused.status == 2
    assert refused.err == (
        "ktae: the verdicts are by different graders: those of strict-boxed by strict-boxed, those "
        "of ktae by ktae; grade one again: ktae eval --regrade strict-boxed --graders ktae "
        "--output FOLDER\n"
    )
    refused = run("compare", "ktae", "stored")
    assert "grade one again: ktae eval --regrade stored --graders ktae" in refused.err
    assert f"those of {file} by ktae; grade one again" in run("compare", "strict-boxed", file).err
    assert run("compare", "ktae", file, "--workers", 1).status == 0
    again = ("--regrade", "strict-boxed", "--graders", "ktae", "--workers", 1, "--output", "again")
    assert run("eval", *again).status == 0
    assert run("compare", "again", "ktae").status == 0


@pytest.mark.slow
def test_the_model_of_a_regraded_record_stays(run: Run, tmp_path: Path) -> None:
    content = [row | ({"model": "m"} if i < 2 else {}) for i, row in enumerate(rows([1, 0, 1]))]
    file = write_lines(tmp_path / "a.jsonl", content)
    assert run("eval", "--regrade", file, "--output", "out", "--workers", 1).status == 0
    table = record.read_record(Path("out/outputs.parquet"))
    assert table["model"].to_pylist() == ["m", "m", None]


@pytest.mark.slow
def test_files_without_a_benchmark_are_compared(run: Run, tmp_path: Path) -> None:
    """Their names are two; so are those of the folders where they were graded."""
    for name, rights in (("old", [0] * 20), ("new", [1] * 20)):
        content = [row | {"benchmark": None, "group": str(i)} for i, row in enumerate(rows(rights))]
        file = write_lines(tmp_path / f"{name}.jsonl", content)
        assert run("eval", "--regrade", file, "--output", name, "--workers", 1).status == 0
    expected = "problems: new is better than old by 100.0 points"
    assert expected in run("compare", "old.jsonl", "new.jsonl", "--workers", 1).out
    assert expected in run("compare", "old", "new.jsonl", "--workers", 1).out
    assert expected in run("compare", "old", "new").out


@pytest.mark.slow
def test_compare(run: Run, tmp_path: Path) -> None:
    a = write_lines(tmp_path / "old.jsonl", rows([0] * 12 + [1] * 8))
    b = write_lines(tmp_path / "new.jsonl", rows([1] * 20))
    result = run("compare", a, b, "--plot", "forest.png", "--workers", 1)
    assert (result.status, result.err) == (0, "")
    assert "own: new is better than old by 60.0 points (95 % interval " in result.out
    assert Path("forest.png").read_bytes().startswith(b"\x89PNG")
    found = json.loads(run("compare", a, b, "--workers", 1, "--json", "-o", "c.json").out)
    assert found == json.loads(Path("c.json").read_text())
    (row,) = found["comparisons"]
    assert (row["name"], row["difference"]["value"], row["shown"]) == ("own", 0.6, True)
    same = run("compare", a, a, "--workers", 1)
    assert "own: no difference can be shown with 20 problems (+0.0 points seen" in same.out


@pytest.mark.slow
def test_compared_models_have_dots_in_their_names(run: Run, tmp_path: Path) -> None:
    a = write_lines(tmp_path / "Qwen2.5-1.5B.jsonl", rows([0] * 20))
    (tmp_path / "Qwen2.5-7B").mkdir()
    b = write_lines(tmp_path / "b.jsonl", rows([1] * 20))
    assert run("eval", "--regrade", b, "--output", "Qwen2.5-7B", "--workers", 1).status == 0
    result = run("compare", a, "Qwen2.5-7B", "--workers", 1)
    assert "Qwen2.5-7B is better than Qwen2.5-1.5B by 100.0 points" in result.out


@pytest.mark.slow
def test_what_a_file_calls_a_benchmark_is_only_text(run: Run, tmp_path: Path) -> None:
    """Neither the terminal nor matplotlib takes it for anything else; nor does an error."""
    made_up = [
        row | {"benchmark": "\x1b[2J$x^$", "group": i} for i, row in enumerate(rows([1] * 3))
    ]
    a = write_lines(tmp_path / "a.jsonl", made_up)
    result = run("compare", a, a, "--plot", "forest.png", "--workers", 1)
    assert (result.status, result.err) == (0, "")
    assert "⟨1B⟩[2J$x^$: no difference" in result.out
    assert Path("forest.png").read_bytes().startswith(b"\x89PNG")
    printed = result.out + run("eval", "--regrade", a, "--workers", 1, "--output", "out").out
    fewer = write_lines(tmp_path / "fewer.jsonl", [*made_up, made_up[0]])
    refused = run("eval", "--regrade", fewer, "--workers", 1)
    assert refused.status == 2 and "⟨1B⟩[2J$x^$/0 has 2 outputs" in refused.err
    assert "\x1b" not in printed + refused.err


@pytest.fixture
def tiny_model(tmp_path: Path) -> Path:
    """A random model over characters, made on the spot."""
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = ["<unk>", "<eos>", *"abcdefghijklmnopqrstuvwxyz0123456789 .\\{}"]
    backend = Tokenizer(models.WordLevel({x: i for i, x in enumerate(letters)}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.decoder = decoders.Fuse()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=backend, unk_token="<unk>", eos_token="<eos>", pad_token="<eos>"
    )
    config = transformers.LlamaConfig(
        vocab_size=len(letters), hidden_size=16, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, eos_token_id=1, pad_token_id=1, initializer_range=0.5,
    )  # fmt: skip
    torch.manual_seed(0)
    transformers.LlamaForCausalLM(config).save_pretrained(tmp_path / "tiny")
    tokenizer.save_pretrained(tmp_path / "tiny")
    return tmp_path / "tiny"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    problems = [{"problem": f"what is {i} ?", "answer": str(i)} for i in range(30)]
    write_lines(folder / "aime24.jsonl", problems)
    return folder


@pytest.mark.slow
def test_a_model_end_to_end_and_resumed(run: Run, tiny_model: Path, data: Path) -> None:
    options = (
        "eval", tiny_model, "--benchmarks", "aime24", "--data", data, "--samples", 2,
        "--temperature", 1, "--max-new-tokens", 8, "--template", "plain", "--batch-size", 16,
        "--output", "out",
    )  # fmt: skip
    first = run(*options)
    assert (first.status, first.err) == (0, "")
    assert cells(first.out, "problems") == ["30"]
    for label in ("avg@2", "pass@2", "maj@k", "mean tokens", "unanswered", "truncated"):
        assert cells(first.out, label)
    batches = sorted(Path("out/batches").iterdir())
    assert [path.name for path in batches] == [f"0000{i}.jsonl" for i in range(4)]
    results = Path("out/results.json").read_bytes()
    batches[1].unlink()
    Path("out/results.json").unlink()
    assert run(*options).status == 0
    assert Path("out/results.json").read_bytes() == results
    refused = run(*options, "--seed", 1)
    assert refused.status == 2
    assert "out holds an evaluation with seed = 0, not 1; give another --output" in refused.err
    again = run("eval", "--regrade", "out")
    assert again.status == 0
    assert run("compare", "out", "out").status == 0


@pytest.mark.slow
def test_the_task_of_a_recipe(run: Run, tiny_model: Path) -> None:
    pytest.importorskip("reasoning_gym", reason="needs the extra 'gym'")
    import transformers

    Path("recipe.yaml").write_text(
        "{name: x, steps: 1, task: {name: chain_sum}, rollout: {max_response_length: 4}}"
    )
    options = ("eval", tiny_model, "--recipe", "recipe.yaml", "--problems", 6, "--output", "out")
    options += ("--set", "rollout.max_response_length=3")
    refused = run(*options)
    assert refused.status == 2
    assert "no chat template" in refused.err
    tokenizer = transformers.AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.chat_template = "{{ messages[-1].content }}"
    tokenizer.save_pretrained(tiny_model)
    result = run(*options)
    assert (result.status, result.err) == (0, "")
    assert "chain_sum" in result.out
    content = json.loads(Path("out/results.json").read_text())
    assert content["grading"]["grader"] == "reasoning-gym"
    assert content["settings"]["max_new_tokens"] == 3
    assert run("compare", "out", "out").status == 0


@pytest.mark.slow
def test_a_model_that_is_the_current_folder(
    run: Run, tiny_model: Path, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its evaluation has its name, and is neither `evals` itself nor, for `..`, what it lies in."""
    monkeypatch.chdir(tiny_model)
    options = ("--benchmarks", "aime24", "--data", data, "--template", "plain", "--workers", 1)
    result = run("eval", ".", *options, "--max-new-tokens", 2)
    assert (result.status, result.err) == (0, "")
    assert [path.name for path in (tiny_model / "evals").iterdir()] == ["tiny"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["eval"], "expected either a MODEL or --regrade FILE"),
        (["eval", "m", "--regrade", "f"], "expected either a MODEL or --regrade FILE"),
        (["eval", "./nowhere"], "model path './nowhere' does not exist"),
        (["eval", "m", "--benchmarks", "aime"], "no benchmark 'aime'; expected one of aime24"),
        (["eval", "m", "--template", "t"], "no template 't'; expected one of chat, qwen-math"),
        (["eval", "m", "--recipe", "r.yaml", "--data", "d"], "--recipe names the problems"),
        (["eval", "m", "--recipe", "r.yaml", "--template", "chat"], "--recipe brings its own"),
        (["eval", "m", "--template", "recipe"], "no template 'recipe'; expected one of chat"),
        (["eval", "m", "--problems", "4"], "--problems is for --recipe"),
        (["eval", "m", "--set", "seed=4"], "--set replaces keys of --recipe"),
        (["eval", "m", "--recipe", "demo.yaml"], "task is demo, which `ktae train` evaluates"),
        (["eval", "m", "--engine", "e"], "no engine 'e'; expected one of transformers, vllm"),
        (["eval", "m", "--samples", "4"], "--samples above 1 needs --temperature above 0"),
        (["eval", "m", "--data", "nowhere"], "--data nowhere is not a folder"),
        (["eval", "--regrade", "x.jsonl"], "x.jsonl does not exist"),
        (["eval", "--regrade", "x.jsonl", "--graders", "g"], "no grader 'g'; expected one of ktae"),
        (["eval", "m", "--graders", "stored"], "no grader 'stored'; expected one of ktae"),
        (["eval", "m", "--graders", "ktae,ktae"], "--graders names one twice"),
        (["eval", "m", "--time-limit", "0"], "--time-limit is 0.0; expected seconds, above 0"),
        (
            ["eval", "--regrade", "a.jsonl", "--benchmarks", "amc"],
            "no amc in a.jsonl; it holds own",
        ),
        (["eval", "--regrade", "twice.jsonl"], "twice.jsonl: problem own/0 has 2 outputs, most"),
        (["eval", "--regrade", "a.jsonl", "--graders", "stored"], "own/0 has no reward"),
        (["compare", "a.jsonl", "other.jsonl"], "2 problems are in one of the two only, such as"),
        (["compare", "a.jsonl", "a.jsonl", "--plot", "n/f.png"], "--plot n/f.png: folder n does"),
    ],
)
def test_bad_input_is_one_line_and_status_2(
    arguments: list[str], message: str, run: Run, tmp_path: Path
) -> None:
    write_lines(tmp_path / "a.jsonl", rows([1, 0, 1]))
    write_lines(tmp_path / "twice.jsonl", [*rows([1, 0, 1]), *rows([1])])
    write_lines(tmp_path / "other.jsonl", rows([1, 0, 1, 1, 1]))
    (tmp_path / "demo.yaml").write_text("{name: x, steps: 1}")
    result = run(*arguments)
    assert result.status == 2
    assert message in result.err
    assert (result.err.count("\n"), "Traceback" in result.err) == (1, False)


def test_vllm_that_is_not_there(run: Run, tiny_model: Path, data: Path) -> None:
    try:
        import vllm  # noqa: F401
    except ModuleNotFoundError:
        pass
    else:
        pytest.skip("vllm is installed here")
    result = run("eval", tiny_model, "--benchmarks", "aime24", "--data", data, "--engine", "vllm")
    assert result.status == 2
    assert result.err.startswith("ktae: --engine vllm needs vllm, which is not installed")


@pytest.mark.slow
def test_models_have_tables_of_their_own(run: Run, tmp_path: Path) -> None:
    """Three of four samples would be right: of one model all are, of the other half."""
    content = [
        {"group": "g", "response": rf"\boxed{{{answer}}}", "answer": "1", "model": model}
        for model, answer in (("a", 1), ("a", 1), ("b", 1), ("b", 2))
    ]
    file = write_lines(tmp_path / "r.jsonl", content)
    result = run("eval", "--regrade", file, "--workers", 1, "--output", "out")
    assert "2 models are told apart" in result.err
    found = json.loads(Path("out/results.json").read_text())["models"]
    assert {name: one["mean"]["value"] for name, one in found.items()} == {"a": 1.0, "b": 0.5}
    pooling = ("--pool-models", "--output", "pooled", "--json")
    pooled = run("eval", "--regrade", file, "--workers", 1, *pooling)
    assert pooled.err == ""
    content = json.loads(pooled.out)
    assert content["mean"]["value"] == 0.75 and content.pop("output") == "pooled"
    assert content == json.loads(Path("pooled/results.json").read_text())
    refused = run("compare", file, file, "--workers", 1)
    assert (refused.status, refused.out) == (2, "")
    assert "A holds outputs of 2 models (a, b); expected one" in refused.err


@pytest.mark.slow
def test_many_unanswered_are_said_with_the_option_that_helps(run: Run, tmp_path: Path) -> None:
    """Above a fifth, by whatever grader, and in `ktae compare` as well."""
    said = [{"group": f"own/{i}", "response": f"I get {i}", "answer": f"{i}"} for i in range(2)]
    some, none = rows([1] * 10)[2:], said[:1]
    many = write_lines(tmp_path / "many.jsonl", said + some)
    few = write_lines(tmp_path / "few.jsonl", none + some[:-1] + rows([1] * 11)[9:])
    assert "WARNING" not in run("eval", "--regrade", few).out
    one_more = write_lines(tmp_path / "more.jsonl", said + some[:-1])
    assert "WARNING" not in run("eval", "--regrade", many).out  # exactly a fifth
    result = run("eval", "--regrade", one_more)
    assert "WARNING: 2 of 9 responses" in result.out and "--graders ktae-last" in result.out
    last = run("eval", "--regrade", one_more, "--graders", "ktae-last")
    assert "WARNING" not in last.out and set(cells(last.out, "pass@1")) == {"100.0"}
    other = write_lines(tmp_path / "other.jsonl", said + some[:-1])
    both = run("compare", one_more, other)
    assert both.out.count("WARNING: 2 of 9 responses") == 2
    assert f"--regrade {one_more} --output FOLDER --graders ktae-last" in both.out
