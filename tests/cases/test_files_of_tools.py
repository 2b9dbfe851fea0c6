"""Small files in the structures that people have, and what must come of each.

`files.jsonl` has the files: how rows stand in a container, what plain fields mean, what the user
names, and what is refused or proposed. All that is read is two problems with two tries at each, of
which the first is correct.
"""

import io
import json
import shlex
import zipfile
from pathlib import Path
from typing import Any

import pytest
from saved_outputs import write_lines

from ktae import InputError
from ktae.report.proposal import proposing
from ktae.rollouts import readers
from ktae.rollouts.groups import group_codes
from ktae.rollouts.notes import Notes
from ktae.rollouts.options import ReadOptions
from ktae.rollouts.paths import UnknownRowsError, parse_fields

LINES = Path(__file__).with_name("files.jsonl").read_text(encoding="utf-8").splitlines()
CASES = {case["name"]: case for case in map(json.loads, LINES)}
READ = [name for name, case in CASES.items() if not {"refused", "proposed"} & case.keys()]
ASKED = ["How many wheels have 3 carts?", "How many wheels have 2 bikes?"]
TEXTS = [f"Count them. Try {text}." for text in ("0: 12", "1: 8", "0: 4", "1: 8")]
PLAIN = [
    {"prompt": ASKED[i // 2], "response": text, "reward": i % 2 == 0}
    for i, text in enumerate(TEXTS)
]


def written(folder: Path, name: str) -> Path:
    case = CASES[name]
    path = folder / case["file"]
    path.write_text(case.get("text") or "".join(json.dumps(x) + "\n" for x in case["rows"]))
    return path


def read(path: Path, fields: tuple[str, ...] = (), **options: Any) -> tuple[Any, Notes]:
    notes = Notes()
    how = ReadOptions(fields=parse_fields(fields), **options)
    return readers.read(path, how, notes=notes), notes


def counts(table: Any) -> tuple[int, int, int]:
    """Rollouts, groups, and groups with both correct and incorrect rollouts."""
    codes, first = group_codes(table)
    correct = table["correct"].to_numpy()
    mixed = [len(set(correct[codes == g]) & {0.0, 1.0}) == 2 for g in range(len(first))]
    return len(table), len(first), sum(mixed)


def chat(question: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


@pytest.mark.parametrize("name", READ)
def test_a_file_is_read(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    fields = tuple(case.get("fields", ()))
    table, notes = read(written(tmp_path, name), fields, **case.get("options", {}))
    assert counts(table) == (4, 2, 2) and not notes.counts["unsure_answers"]
    assert table["response"].to_pylist() == TEXTS
    assert table["correct"].to_pylist() == [1, 0, 1, 0]
    assert {x for x in table["answer"].to_pylist() if x} == set(case.get("answers", ()))
    assert table["prompt"].to_pylist() == case.get("prompts", table["prompt"].to_pylist())


@pytest.mark.parametrize("name", [x for x in CASES if "refused" in CASES[x]])
def test_a_file_is_refused(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name)
    with pytest.raises(InputError) as caught, proposing(path, ReadOptions()):
        read(path)
    assert all(text in str(caught.value) for text in CASES[name]["refused"])
    assert ("this reads" in str(caught.value)) == CASES[name].get("advised", False)


@pytest.mark.parametrize("name", [x for x in CASES if "proposed" in CASES[x]])
def test_fields_of_other_names_are_proposed(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, name)
    with pytest.raises(UnknownRowsError) as caught, proposing(path, ReadOptions()):
        read(path)
    options = shlex.split(str(caught.value).partition("ktae report ")[2].partition("\n")[0])
    table, _ = read(path, tuple(x for x in options[1:] if x != "--field"))
    assert counts(table) == (4, 2, 2)
    assert table["response"].to_pylist() == TEXTS


def test_the_zip_of_inspect_is_read(tmp_path: Path) -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("header.json", json.dumps({"eval": {"model": "m/x"}}))
        for epoch, (text, letter) in enumerate((("4", "C"), ("5", "I")), start=1):
            sample = {"id": 1, "epoch": epoch, "input": "2+2?", "messages": chat("2+2?", text)}
            sample["scores"] = {"match": {"value": letter}}
            archive.writestr(f"samples/1_epoch_{epoch}.json", json.dumps(sample))
    (tmp_path / "log.eval").write_bytes(packed.getvalue())
    table, _ = read(tmp_path / "log.eval")
    assert counts(table) == (2, 1, 1) and table["model"].to_pylist() == ["m/x"] * 2


# --- which rollouts are a group


@pytest.mark.parametrize("join", [False, True])
@pytest.mark.parametrize("named", [False, True])
def test_rows_of_different_prompts_never_share_a_group(
    join: bool, named: bool, tmp_path: Path
) -> None:
    """Two tables of one file, rows by number in two files, and labels that two files share."""
    more = {"group": "g"} if named else {}
    table = {"columns": ["prompt", "response", "reward"], "data": [["p", "a", 1], ["q", "b", 0]]}
    (tmp_path / "tables.json").write_text(json.dumps([table, table]))
    for name, prompt in (("a", "p"), ("b", "q"), ("c", "s")):
        entry = {"prompt": prompt, "responses": ["x", "y"], "rewards": [1, 0]} | more
        write_lines(tmp_path / f"{name}.jsonl", [entry, entry | {"prompt": "t"}])
    table, _ = read(tmp_path, join=join)
    codes = group_codes(table)[0].tolist()
    n_groups = len({*codes})
    assert len({*zip(codes, table["prompt"].to_pylist(), strict=True)}) == n_groups
    assert len({*zip(codes, table["group"].to_pylist(), strict=True)}) == n_groups


def test_a_label_that_reads_like_the_name_of_another_group(tmp_path: Path) -> None:
    labels = [("a", "p"), ("a", "q"), ("a #2", "s"), ("a", "t")]
    rows = [{"group": g, "prompt": p, "response": "x", "reward": 1} for g, p in labels]
    table, _ = read(write_lines(tmp_path / "r.jsonl", rows))
    assert len({*table["group"].to_pylist()}) == len(rows)


@pytest.mark.parametrize("join", [False, True])
def test_rows_without_a_prompt_are_groups_of_their_own_file(join: bool, tmp_path: Path) -> None:
    for name in "ab":
        write_lines(tmp_path / f"{name}.jsonl", [{"responses": ["x", "y"], "rewards": [1, 0]}] * 2)
    assert counts(read(tmp_path, join=join)[0]) == (8, 4, 4)


def test_evaluations_beside_training_are_left_out(tmp_path: Path) -> None:
    rows = [x | {"split": "train" if i < 2 else "val"} for i, x in enumerate(PLAIN)]
    table, notes = read(write_lines(tmp_path / "r.jsonl", rows))
    assert len(table) == 2 and notes.counts["evaluation"] == 2


def test_conditions_are_noted_and_some_refused(tmp_path: Path) -> None:
    rows = [x | {"method": "ab"[i // 4]} for i, x in enumerate(2 * PLAIN)]
    path = write_lines(tmp_path / "r.jsonl", rows)
    assert read(path)[1].names["conditions"] == ["'method'"]
    assert counts(read(path, group_by=["prompt", "method"])[0]) == (8, 4, 4)
    with pytest.raises(InputError, match="'methd'"):
        read(path, group_by=["prompt", "methd"])
    with pytest.raises(InputError):
        readers.read(write_lines(path, [x | {"iteration": x["method"]} for x in rows]))


def test_turns_of_an_episode_in_rows_of_their_own(tmp_path: Path) -> None:
    rows = [
        {"episode": i, "turn": t, "prompt": f"room {t}", "response": f"go {i}", "reward": i * t}
        for i in range(2)
        for t in range(2)
    ]
    path = write_lines(tmp_path / "r.jsonl", rows)
    assert read(path)[1].counts["turn_rows"] == 4
    with pytest.raises(InputError):
        readers.read(path)


def test_reasoning_beside_a_response_belongs_to_it(tmp_path: Path) -> None:
    """Unless it holds it already."""
    rows = [x | {"reasoning": f"THINK {i}" if i else "Try"} for i, x in enumerate(PLAIN)]
    table, _ = read(write_lines(tmp_path / "r.jsonl", rows))
    expected = [f"THINK {i}\n{text}" for i, text in enumerate(TEXTS)]
    assert table["response"].to_pylist() == [TEXTS[0], *expected[1:]]


# --- what only several rows tell


def test_labels_of_a_task_win_over_prompts_that_differ(tmp_path: Path) -> None:
    """A simulated user asks otherwise each time; prompts that repeat are problems of their own."""
    rows = [x | {"task_id": f"t{i // 2}", "prompt": f"user {i}"} for i, x in enumerate(PLAIN)]
    assert counts(read(write_lines(tmp_path / "r.jsonl", rows))[0]) == (4, 2, 2)
    rows = [x | {"task_id": f"t{i % 2}"} for i, x in enumerate(2 * PLAIN)]
    assert counts(read(write_lines(tmp_path / "r.jsonl", rows))[0])[1] == 2


def test_a_label_that_all_rows_share_tells_nothing(tmp_path: Path) -> None:
    rows = [{"id": "run", "response": x["response"], "reward": x["reward"]} for x in PLAIN]
    table, notes = read(write_lines(tmp_path / "r.jsonl", rows))
    assert counts(table) == (4, 4, 0) and notes.counts["alone"] == 4


def test_models_of_which_most_responses_are_alone_are_compared_as_one(tmp_path: Path) -> None:
    rows = [x | {"model": "ab"[i % 2]} for i, x in enumerate(PLAIN)]
    table, notes = read(write_lines(tmp_path / "r.jsonl", rows))
    assert counts(table) == (4, 2, 2) and notes.counts["pooled"]
    table, notes = read(write_lines(tmp_path / "r.jsonl", rows + rows))
    assert counts(table)[1] == 4 and notes.counts["models"]


def test_a_long_label_becomes_a_short_one(tmp_path: Path) -> None:
    rows = [x | {"problem_id": x["prompt"] * 4} for x in PLAIN]
    table, _ = read(write_lines(tmp_path / "r.jsonl", rows))
    assert counts(table) == (4, 2, 2)
    assert all(len(name) < 40 for name in table["group"].to_pylist())


def test_a_list_of_another_length_beside_responses_is_refused(tmp_path: Path) -> None:
    for rewards in ([1], [1, 0, 1]):
        row = {"prompt": "p", "responses": ["a", "b"], "rewards": rewards}
        with pytest.raises(InputError):
            readers.read(write_lines(tmp_path / "r.jsonl", [row]))


def test_ids_of_a_conversation_need_a_mask(tmp_path: Path) -> None:
    talk = [
        {"role": "assistant", "content": "look"},
        {"role": "tool", "content": "4"},
        {"role": "assistant", "content": "4"},
    ]
    rows = [{"prompt": "p", "response": talk, "token_ids": [1, 2, 3], "reward": i} for i in (0, 1)]
    table, notes = read(write_lines(tmp_path / "r.jsonl", rows))
    assert table["token_ids"].to_pylist() == [None, None] and notes.counts["ids"] == 2
    masked = [x | {"mask": [1, 0, 1]} for x in rows]
    table, _ = read(write_lines(tmp_path / "r.jsonl", masked))
    assert table["token_ids"].to_pylist() == [[1, 2, 3]] * 2


def test_nothing_is_proposed_where_nothing_could_be_compared(tmp_path: Path) -> None:
    rows = [{"asked": f"p{i}", "outs": f"text {i}", "solved": i % 2 == 0} for i in range(6)]
    path = write_lines(tmp_path / "r.jsonl", rows)
    with pytest.raises(UnknownRowsError) as caught, proposing(path, ReadOptions()):
        read(path, ("prompt=asked",))
    assert "this reads" not in str(caught.value)


def test_files_are_read_by_the_numbers_in_their_names(tmp_path: Path) -> None:
    for number in (10, 2, 1):
        write_lines(tmp_path / f"{number}.jsonl", [x | {"id_of": number} for x in PLAIN])
    table, _ = read(tmp_path)
    order = [json.loads(x)["id_of"] for x in table["extra"].to_pylist()]
    assert order == [1] * 4 + [2] * 4 + [10] * 4


def test_a_branch_that_only_shortened_a_conversation_is_none(tmp_path: Path) -> None:
    said = [("user", "2 + 2?", False), ("assistant", "4", True), ("assistant", "summary", True)]
    nodes = [
        {
            "message": {"role": role, "content": text},
            "sampled": sampled,
            "parent": i - 1 if i else None,
        }
        for i, (role, text, sampled) in enumerate(said)
    ]
    nodes[2]["semantic_parents"] = {"compaction_of": [1]}
    traces = [{"nodes": nodes, "reward": 1.0}]
    path = write_lines(tmp_path / "traces.jsonl", [{"task": {"key": "t"}, "traces": traces}])
    assert read(path)[0]["response"].to_pylist() == ["4"]
