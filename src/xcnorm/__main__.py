"""`python -m xcnorm` is the same as `xcnorm`."""

import sys

from xcnorm.cli import main

sys.exit(main())
