"""No line of the package runs what it reads: neither pickles, nor code of a file or of the hub."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("src", "lab/src", "tools", "benchmarks")
SOURCES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))

MODULES = {"pickle", "marshal", "shelve", "dill", "joblib", "cloudpickle"}
"""They run what a file says while they read it."""
BUILTINS = {"eval", "exec", "compile", "__import__"}
CALLS = {
    **dict.fromkeys(("os.system", "os.popen", "subprocess.getoutput"), "a shell"),
    **dict.fromkeys(("parse_expr", "sympify"), "sympy evaluates text as Python"),
    **dict.fromkeys(("pandas.read_pickle", "pd.read_pickle"), "a pickle"),
    "tempfile.mktemp": "another process may take the name",
}
REQUIRED = {
    "torch.load": ("weights_only", True),
    "np.load": ("allow_pickle", False),
    "numpy.load": ("allow_pickle", False),
    "Environment": ("autoescape", True),
    "AutoTokenizer.from_pretrained": ("trust_remote_code", False),
    "AutoModelForCausalLM.from_pretrained": ("trust_remote_code", False),
}
"""Calls that must say so themselves, whatever the library's default is."""
FORBIDDEN = {"shell": True, "trust_remote_code": True, "verify": False, "allow_pickle": True}
"""Arguments that no call may have."""
YAML = {"safe_load", "safe_dump", "YAMLError", "SafeLoader", "ScalarNode"}


def complaints(source):
    """What is wrong with a source, each with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                if name.partition(".")[0] in MODULES:
                    yield node.lineno, f"imports {name}"
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "yaml":
            if node.attr not in YAML:
                yield node.lineno, f"yaml.{node.attr}; expected yaml.safe_load"
        elif isinstance(node, ast.Call):
            yield from ((node.lineno, text) for text in about_call(node))


def about_call(node):
    name = ast.unparse(node.func)
    given = {keyword.arg: keyword.value for keyword in node.keywords}
    if isinstance(node.func, ast.Name) and name in BUILTINS:
        yield f"calls {name}"
    for known, why in CALLS.items():
        if name == known or name.endswith(f".{known}"):
            yield f"calls {name}: {why}"
    for argument, value in FORBIDDEN.items():
        if argument in given and is_constant(given[argument], value):
            yield f"{name}({argument}={value})"
    if name in REQUIRED:
        argument, value = REQUIRED[name]
        if not is_constant(given.get(argument), value):
            yield f"{name} without {argument}={value}"


def is_constant(node, value):
    return isinstance(node, ast.Constant) and node.value is value


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_source_runs_what_it_reads(path):
    assert list(complaints(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from joblib import load",
        "import os, marshal",
        "eval('1')",
        "exec(text)",
        "os.system('x')",
        "subprocess.run('x', shell=True)",
        "yaml.load(text)",
        "yaml.unsafe_load(text)",
        "torch.load(path)",
        "torch.load(path, weights_only=False)",
        "np.load(path)",
        "np.load(path, allow_pickle=True)",
        "AutoTokenizer.from_pretrained(name)",
        "AutoModelForCausalLM.from_pretrained(name, trust_remote_code=True)",
        "LLM(model, trust_remote_code=True)",
        "Environment()",
        "sympy.sympify(text)",
    ],
)
def test_the_check_finds(source):
    assert list(complaints(source))


@pytest.mark.parametrize(
    "source",
    [
        "re.compile('x')",
        "model.eval()",
        "ast.literal_eval(text)",
        "yaml.safe_load(text)",
        "torch.load(path, weights_only=True)",
        "subprocess.run(['x'])",
    ],
)
def test_the_check_lets_pass(source):
    assert not list(complaints(source))
