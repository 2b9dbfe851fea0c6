"""What was joined, left out or assumed stands in the JSON of every command that reads."""

import json

import pytest
from saved_outputs import write_lines

EVERY = ("show in", "report in", "score in", "validate in -e paper", "permutation-test in")


@pytest.mark.parametrize("words", [*EVERY, "eval --regrade in", "compare in in"])
def test_notes_are_in_the_json(words, command, tmp_path):
    (tmp_path / "in").mkdir()
    rows = [
        {"group": group, "response": rf"{'so ' * i}\boxed{{{i % 3}}}", "answer": "1"}
        | {"reward": int(i % 3 == 1)}
        for group in "ab"
        for i in range(6)
    ]
    write_lines(tmp_path / "in/r.jsonl", rows)
    (tmp_path / "in/config.json").write_text("{}")
    result = command(*words.split(), "--json")
    assert result.status == 0
    notes = json.loads(result.out)["notes"]
    assert all({"key", "kind", "text", "n", "severe"} < note.keys() for note in notes)
    assert any("config.json" in note["text"] for note in notes)
    assert all(f"ktae: {note['text']}" in result.err for note in notes)


@pytest.mark.parametrize(("answer", "alike"), [("# 18", True), ("18", False)])
def test_outputs_that_are_all_graded_alike_are_a_warning(command, tmp_path, answer, alike):
    """The references have a mark that no response has."""
    pytest.importorskip("math_verify")
    rows = [
        {"problem": f"p{i}", "answer": answer, "response": rf"\boxed{{{18 + i % 2}}}"}
        for i in range(30)
    ]
    file = write_lines(tmp_path / "a.jsonl", rows)
    for words in (("eval", "--regrade", file), ("compare", file, file)):
        assert ("WARNING" in command(*words).out) == alike
