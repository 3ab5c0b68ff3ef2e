"""`python -m pasta` is `pasta`."""

from pasta.cli import main

main()
