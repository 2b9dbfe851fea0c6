"""YAML of plain values: quick whatever it holds."""

import pytest

from ktae import InputError
from ktae.files.typed import MAX_YAML, parse_yaml, read_mapping

LISTS = "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 30))
HOSTILE = {
    "aliases": f"a0: &a0 [1, 1]\n{LISTS}",
    "an alias of itself": "a: &a [*a]",
    "a merge": "a: &a {b: 1}\nc: {<<: *a}",
    "deep lists": "[" * 50_000,
    "deep mappings": "{a: " * 20_000,
    "large": "a" * (MAX_YAML + 1),
    "a key twice": "a: 1\na: 2",
    "a tag": "!!python/object/apply:os.getcwd []",
    "a date": "2026-01-01",
    "no number": "a: .inf",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_plain_value_is_refused(name):
    with pytest.raises(InputError):
        parse_yaml(HOSTILE[name], "here")


def test_many_keys_are_read():
    content = parse_yaml("".join(f"{n}: 1e-6\n" for n in range(9_000)), "here")
    assert len(content) == 9_000 and content[8_999] == 1e-6


@pytest.mark.parametrize("content", [b"[1]", b"\xff", b""])
def test_a_file_of_something_else(tmp_path, content):
    (tmp_path / "a.yaml").write_bytes(content)
    with pytest.raises(InputError, match=r"a\.yaml"):
        read_mapping(tmp_path / "a.yaml", "recipe")
