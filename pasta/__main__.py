"""The command `pasta`, also as `python -m pasta`."""


def main() -> int:
    """Run the command line, which exits; return the exit code of an interrupt while it is loaded."""
    try:
        from pasta.cli import main as run

        run()
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
