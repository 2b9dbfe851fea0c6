"""Answers are text for computer algebra: none of them is ever run as code.

Python's own audit events tell: while hostile answers are graded, in a process of their own, nothing
is started, connected or written, and what is compiled is none of their text. (math-verify gives
sympy's `parse_expr`, which evaluates text as Python, nothing but digits and operators.)
"""

import subprocess
import sys

import pytest

pytest.importorskip("math_verify")

GRADE = r"""
import sys
from ktae.grading.graders import GRADERS
from ktae.grading.graders import verify

verify(r"\boxed{\frac{1}{2} x}", ["x / 2"])  # whatever is imported and compiled once
GRADERS["math-verify"](r"\boxed{\frac{1}{2} x}", ["x / 2"])
found = []

def watch(event, arguments):
    if event in ("os.system", "os.exec", "os.posix_spawn", "subprocess.Popen", "socket.connect"):
        found.append(event)
    if event == "open" and isinstance(arguments[1], str) and set(arguments[1]) & set("wax+"):
        found.append(f"open {arguments[0]}")
    if event == "compile" and "owned" in str(arguments[0]):
        found.append("compile")

sys.addaudithook(watch)
PAYLOADS = [
    "__import__('os').system('touch owned')",
    "open('owned', 'w')",
    "().__class__.__base__.__subclasses__()",
    "exec('owned=1')",
    "lambda: owned",
    "2 + owned()",
    r"\input{owned}", r"\write18{touch owned}",
]
FORMS = [
    "{}", r"\boxed{{{}}}", "${}$", "The final answer is {}. I hope", "answer is 1 + {}",
    r"\boxed{{\{{{}, 1\}}}}", r"\boxed{{\text{{{}}}}}", r"\boxed{{x = {}}}",
    r"\boxed{{\begin{{pmatrix}} {} \\ 1 \end{{pmatrix}}}}", r"\boxed{{f_{{{}}}(x)}}",
    r"\boxed{{\operatorname{{{}}}(1)}}", "<answer>{}</answer>", '{{"answer": "{}"}}',
]
for payload in PAYLOADS:
    for form in FORMS:
        for name, grader in GRADERS.items():
            for response, answer in ((form.format(payload), "1"), (r"\boxed{1}", payload)):
                try:
                    grader(response, [answer])
                except Exception as error:
                    assert name == "math-verify", (name, response, error)
print(len(PAYLOADS) * len(FORMS), found)
compile("owned", "", "eval")
print(found)  # so that it is known to be watched
"""


def test_answers_are_not_run(tmp_path):
    done = subprocess.run(
        [sys.executable, "-B", "-c", GRADE],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["104 []", "['compile']"]
    assert list(tmp_path.iterdir()) == []
