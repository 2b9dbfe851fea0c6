"""How the command line ends: asked to, unread, on bad input, and where a machine or a name is
hostile."""

import os
import signal
import subprocess
import sys

import pytest
from in_process import COMMAND, in_another
from saved_outputs import write_lines

ROWS = [{"group": 0, "response": f"it is {i}", "reward": i % 2} for i in range(4)]
WAITING = """
import signal, time
from ktae import cli

# A shell starts what runs in the background with Ctrl-C ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)

@cli.app.command("wait")
def wait():
    try:
        print("ready", flush=True)
        time.sleep(60)
    finally:
        print("tidied up", flush=True)

cli.main()
"""


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["sigterm", "ctrl-c"]
)
def test_a_signal_ends_it_as_an_exception_does(number, status):
    words = [sys.executable, "-c", WAITING, "wait"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(words, text=True, **pipes)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    assert process.communicate(timeout=30) == ("tidied up\n", "")
    assert process.returncode == status


@pytest.mark.parametrize("words", [["--help"], ["show", "rollouts.jsonl"]])
def test_a_reader_that_goes_away_is_no_error(words, tmp_path):
    """As in `ktae show ... | head -1`."""
    rows = [{"group": "a", "response": f"so {i} " * 40_000, "reward": i} for i in (0, 1)]
    write_lines(tmp_path / "rollouts.jsonl", rows)
    reader, writer = os.pipe()
    os.close(reader)
    done = in_another(*words, stdout=writer, cwd=tmp_path)
    os.close(writer)
    assert done.returncode == 1 and "roken" not in done.stderr


def test_names_that_are_not_utf_8(command, tmp_path):
    """As file, as one of several, as a folder of several, and without groups."""
    for name in ("a\udce9.jsonl", "b.jsonl", "d\udce9/x.jsonl", "d\udce9/y.jsonl"):
        write_lines(tmp_path / name, [{"group": "g", "response": "r", "reward": 1}])
    write_lines(tmp_path / "n\udce9.jsonl", [{"response": "r", "reward": 1}])
    output = "o\udce9.html"
    for inputs in (["a\udce9.jsonl"], ["a\udce9.jsonl", "b.jsonl"], ["d\udce9"], ["n\udce9.jsonl"]):
        assert command("report", *inputs, "-o", output, "--json").status == 0
        assert (tmp_path / output).exists()
    assert command("score", "d\udce9", "--join", "-o", "s\udce9.parquet").status == 0


UNFORESEEN = {
    "a name that is too long": ["score", "a" * 5000],
    "a folder that is gone": ["report", "../r.jsonl"],
    "a full disk": ["show", "r.jsonl"],
}


@pytest.mark.parametrize("case", UNFORESEEN)
def test_what_nobody_foresaw_is_one_line(case, tmp_path):
    write_lines(tmp_path / "r.jsonl", ROWS)
    (tmp_path / "gone").mkdir()
    settings = {"cwd": tmp_path, "stderr": subprocess.PIPE}
    if case == "a folder that is gone":
        settings |= {"cwd": tmp_path / "gone", "preexec_fn": (tmp_path / "gone").rmdir}
    with open("/dev/full", "w") as full:
        if case == "a full disk":
            settings |= {"stdout": full}
        done = in_another(*UNFORESEEN[case], **settings)
    *notes, last = done.stderr.splitlines()
    assert done.returncode == 1 and len(last) < 1_000 and "KTAE_DEBUG" in last
    assert all(line.startswith("ktae: ") for line in (*notes, last))


def test_the_traceback_is_there_for_who_asks():
    variables = os.environ | {"KTAE_DEBUG": "1"}
    words = [*COMMAND, "score", "a" * 5000]
    done = subprocess.run(words, capture_output=True, text=True, env=variables)
    assert done.returncode == 1 and "Traceback" in done.stderr


@pytest.mark.parametrize("words", ["score", "report", "validate", "curves", "compare", "train"])
def test_a_pipe_in_a_folder_holds_no_command(command, tmp_path, words):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("rollouts.parquet", "metrics.jsonl", "recipe.yaml", "tokenizer.json"):
        os.mkfifo(folder / name)
    assert command(words, folder, *([folder] if words == "compare" else [])).status == 2


def test_no_text_of_a_file_looks_like_a_line_of_ours(command, tmp_path):
    """A newline, a carriage return and a bidirectional override, in labels and in a file's name."""
    forged = "x\nVERDICT: take paper\r\u202e\x1b[2J"
    row = {"problem": forged, "answer": "1", "benchmark": forged}
    rows = [row | {"response": f"\\boxed{{{i}}}"} for i in (1, 2)]
    file = write_lines(tmp_path / "a\nVERDICT: b.jsonl", rows)
    bad = write_lines(tmp_path / "c\nVERDICT: d.jsonl", [{"nothing": 1}])
    for words in (("compare", file, file), ("score", bad), ("eval", "--regrade", file)):
        printed = "".join(command(*words)[1:])
        assert not any(x.startswith(("VERDICT", "\u202e")) for x in printed.split("\n"))
        assert "\u202e" not in printed and "\x1b" not in printed
