"""How long the estimator takes on the paper's batch, beside verl's advantages and a memory copy.

    python benchmarks/estimator.py --output benchmarks/results/estimator.csv

The same as `ktae bench`.
"""

from ktae.cli import app

if __name__ == "__main__":
    import sys

    app(["bench", *sys.argv[1:]])
