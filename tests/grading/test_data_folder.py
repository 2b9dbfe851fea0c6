"""Python files that lie beside somebody's rollouts are data: no command imports them."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("math_verify")

NAMES = (
    *("sympy", "math_verify", "latex2sympy2_extended", "antlr4", "mpmath", "numpy", "numba"),
    *("random", "code", "copy", "json", "re", "enum", "string", "queue", "signal", "statistics"),
    *("typing", "dataclasses", "pyarrow", "typer", "rich", "pydantic", "jinja2", "scipy"),
)
BY_PYTHON = ("types", "collections", "functools", "keyword", "operator", "contextlib", "warnings")
"""What `python -m` imports before it looks at any program."""

COMMANDS = [
    ["report", "rows.jsonl", "--output", "page.html"],
    ["score", "rows.jsonl", "--output", "scored.parquet"],
    ["show", "rows.jsonl"],
    ["validate", "rows.jsonl"],
    ["permutation-test", "rows.jsonl"],
    ["eval", "--regrade", "rows.jsonl"],
    ["compare", "rows.jsonl", "rows.jsonl"],
]
ALL_COMMANDS = """
import json, runpy, sys
for command in json.loads(sys.argv[1]):
    sys.argv = ["ktae", *command]
    try:
        runpy.run_module("ktae", run_name="__main__")
    except SystemExit as end:
        print("STATUS", command[0], end.code or 0, flush=True)
"""


@pytest.fixture
def folder(tmp_path):
    """Rollouts that have to be graded, and beside them files with the names of libraries."""
    rows = [
        {
            "problem_id": f"q{i % 4}",
            "prompt": f"How much is {i % 4} + 1?",
            "response": rf"The {i}th: \boxed{{\frac{{{2 * (i % 4) + i % 3}}}{{2}}}}",
            "answer": str(i % 4),
            "reward": int(i % 3 == 0),
        }
        for i in range(32)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def lay(folder, names):
    mark = f"open({str(folder / 'imported')!r}, 'a').write(__name__ + ' ')\n"
    for name in names:
        (folder / f"{name}.py").write_text(mark)


def run(folder, *program):
    done = subprocess.run(program, cwd=folder, capture_output=True, text=True, check=False)
    imported = folder / "imported"
    assert not imported.exists(), imported.read_text()
    return done


def test_no_command_imports_what_lies_beside_the_rollouts(folder):
    lay(folder, (*NAMES, *BY_PYTHON))
    done = run(folder, sys.executable, "-P", "-c", ALL_COMMANDS, json.dumps(COMMANDS))
    ended = [line.split()[1:] for line in done.stdout.splitlines() if line.startswith("STATUS")]
    assert ended == [[command[0], "0"] for command in COMMANDS], done.stderr


def test_nor_does_python_m_ktae(folder):
    lay(folder, NAMES)
    done = run(folder, sys.executable, "-m", "ktae", *COMMANDS[5])
    assert done.returncode == 0, done.stderr
    assert "accuracy in percent" in done.stdout


def test_nor_do_workers_of_a_script_that_lies_there(folder):
    """Whether Python starts the script or reads it from stdin; PYTHONPATH may be empty."""
    script = folder / "script.py"
    script.write_text(
        "import ktae, ktae.grading, pathlib\n"
        "pathlib.Path('sympy.py').write_text('open(\"imported\", \"w\")')\n"
        'print(ktae.grading.grade(r"\\boxed{1/2}", "0.5").outcome)\n'
    )
    environment = os.environ | {"PYTHONPATH": os.environ.get("PYTHONPATH", "") + os.pathsep}
    for how in ([str(script)], ["-c", script.read_text()]):
        done = subprocess.run(
            [sys.executable, *how], cwd=folder, env=environment, capture_output=True, text=True
        )
        assert (done.stdout, done.stderr) == ("correct\n", "")
    assert not (folder / "imported").exists()


def test_a_program_of_somebody_else_s_keeps_its_path(tmp_path):
    """`python -m theirs`, whose package imports ktae at once, still finds its own modules."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "__init__.py").write_text("import ktae")
    (tmp_path / "theirs" / "__main__.py").write_text("import beside; print(beside.x)")
    (tmp_path / "beside.py").write_text("x = 5")
    done = run(tmp_path, sys.executable, "-m", "theirs")
    assert done.stdout == "5\n", done.stderr
