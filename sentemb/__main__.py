"""`python -m sentemb`: the command, as torchrun starts it on every rank."""

from __future__ import annotations

from sentemb.cli.main import run

if __name__ == "__main__":
    run()
