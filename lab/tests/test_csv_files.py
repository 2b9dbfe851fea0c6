"""Tables as CSV, plain and in gzip."""

import gzip

import pytest

from ktae.errors import InputError
from ktae_lab.csv_files import read_csv, write_csv

ROWS = [{"a": 1 / 3, "b": "x"}, {"a": 2, "c": ""}]


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_what_is_written_is_read(tmp_path, name):
    path = tmp_path / name
    write_csv(path, ROWS)
    found = read_csv(path, ["a", "c"])
    assert found == [{"a": "0.3333333", "b": "x", "c": ""}, {"a": "2", "b": "", "c": ""}]


def test_the_same_rows_are_the_same_bytes(tmp_path):
    files = [tmp_path / "one.csv.gz", tmp_path / "other.csv.gz"]
    for path in files:
        write_csv(path, ROWS)
    one, other = (path.read_bytes() for path in files)
    assert one == other and gzip.decompress(one).startswith(b"a,b,c\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n", "cannot read .*Not a gzipped file"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9], "cannot read .*end-of-stream"),
        (gzip.compress(b"a,b\n1,2\n", mtime=0), "has no column c"),
        (gzip.compress(b"a,b,c\n1,2\n", mtime=0), "rows of other lengths"),
        (gzip.compress(b"a,b,c\n1,2,\xff\n", mtime=0), "cannot read .*utf-8"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path, content, message):
    path = tmp_path / "t.csv.gz"
    with pytest.raises(InputError, match="No such file"):
        read_csv(path)
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_csv(path, ["a", "c"])
