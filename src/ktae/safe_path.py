"""Leave the current folder out of the path of `python -m ktae`.

Python puts it first there, so that a `numpy.py` or `sympy.py` that lies beside somebody's rollouts
would be imported in the place of the library. This module is imported before any other.
"""

import sys

# While Python looks for the module that `-m` names, `sys.argv` has "-m" in the place of its name.
# A program of somebody else's that imports ktae keeps its path.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    module = sys.orig_argv[-len(sys.argv)].removeprefix("-m")
    if module.split(".")[0] == "ktae":
        del sys.path[0]
