"""`python -m evals.learned`: see `fit`, which processes of its pool can load by name."""

import sys

from evals.learned.fit import main

if __name__ == "__main__":
    sys.exit(main())
