"""Looks for models that circlet does not take as it promises; `make fuzz SECONDS=60 SEED=1`.

    python -m tests.fuzz --seconds 60 --seed 1      tries changed and generated models for a minute
    python -m tests.fuzz --case 1:4711              tries one of them again
    python -m tests.fuzz --corpus                   tries again what was found
"""

from __future__ import annotations

import argparse
import sys

from tests.fuzz.campaign import Campaign, one, replay


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to go on")
    parser.add_argument("--cases", type=int, default=1 << 62, help="how many cases to try at most")
    parser.add_argument("--seed", type=int, default=1, help="which cases")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--no-corpus", action="store_true", help="do not make findings smaller, nor keep them")
    parser.add_argument("--case", metavar="SEED:NUMBER", help="try one case")
    parser.add_argument("--corpus", action="store_true", help="try all of the corpus")
    options = parser.parse_args()
    if options.case:
        seed, _, number = options.case.partition(":")
        found = one(int(seed), int(number))
        print(*(f"{key}: {value}" for key, value in found.items()), sep="\n")
        return int("key" in found)
    if options.corpus:
        wrong = replay()
        print(*(f"{name}: {what}" for name, what in wrong.items()), sep="\n")
        return int(bool(wrong))
    campaign = Campaign(options.seed, keep=not options.no_corpus)
    campaign.run(options.first, options.seconds, options.cases)
    print(f"\n{campaign.table()}")
    print(*(f"{count} {key}" for key, count in campaign.findings.most_common()), sep="\n")
    return int(bool(campaign.findings))


if __name__ == "__main__":
    sys.exit(main())
