#!/usr/bin/env python3
"""Writes configs/data/friedman1.csv: a regression table whose true function is known.

y = 10 sin(pi x0 x1) + 20 (x2 - 0.5)^2 + 10 x3 + 5 x4 + e, where x0..x9 are uniform in [0, 1) and e is normal with
standard deviation 1 (J. H. Friedman, "Multivariate Adaptive Regression Splines", Annals of Statistics 19(1), 1991,
equation 61). x5 to x9 have no influence on y. On new samples no model can have a mean squared error below 1, the
variance of e.

Usage: tools/make_friedman1.py [file]. Every run writes the same bytes.
"""

import math
import pathlib
import random
import sys

SAMPLES = 2000
FEATURES = 10
SEED = 1991


def row(source):
    x = [source.random() for _ in range(FEATURES)]
    y = 10 * math.sin(math.pi * x[0] * x[1]) + 20 * (x[2] - 0.5) ** 2 + 10 * x[3] + 5 * x[4]
    return x + [y + source.gauss(0, 1)]


def main():
    default = pathlib.Path(__file__).resolve().parent.parent / "configs" / "data" / "friedman1.csv"
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else default
    source = random.Random(SEED)
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="ascii", newline="\n") as table:
        print(",".join([f"x{i}" for i in range(FEATURES)] + ["y"]), file=table)
        for _ in range(SAMPLES):
            print(",".join(f"{value:.5f}" for value in row(source)), file=table)


if __name__ == "__main__":
    main()
