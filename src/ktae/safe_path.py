"""Leave the current folder out of the path of `python -m ktae`, before anything is imported: a
`numpy.py` beside somebody's rollouts would be imported in the place of the library."""

import sys

# While Python looks for the module that `-m` names, `sys.argv` has "-m" in the place of its name.
# A program of somebody else's that imports ktae keeps its path.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    module = sys.orig_argv[-len(sys.argv)].removeprefix("-m")
    if module.split(".")[0] == "ktae":
        del sys.path[0]
