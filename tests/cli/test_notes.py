"""What was joined, left out or assumed stands in the JSON of every command that reads."""

import json

import pytest
from saved_outputs import write_lines


@pytest.mark.parametrize(
    "words",
    [
        ["show", "in"],
        ["report", "in"],
        ["score", "in"],
        ["validate", "in", "-e", "paper"],
        ["permutation-test", "in"],
        ["eval", "--regrade", "in", "--workers", 1],
        ["compare", "in", "in", "--workers", 1],
    ],
    ids=lambda words: words[0],
)
def test_notes_are_in_the_json(words, command, tmp_path):
    (tmp_path / "in").mkdir()
    rows = [
        {
            "group": group,
            "response": f"{'so ' * i}\\boxed{{{i % 3}}}",
            "reward": int(i % 3 == 1),
            "answer": "1",
        }
        for group in "ab"
        for i in range(6)
    ]
    write_lines(tmp_path / "in/r.jsonl", rows)
    (tmp_path / "in/config.json").write_text("{}")
    result = command(*words, "--json")
    assert result.status == 0
    notes = json.loads(result.out)["notes"]
    assert all({"key", "kind", "text", "n", "severe"} < note.keys() for note in notes)
    texts = [note["text"] for note in notes]
    assert any("config.json" in text for text in texts)
    assert all(f"ktae: {text}" in result.err for text in texts)
