"""The command."""

import sys

from sizes.check import main

sys.exit(main())
