"""`python -m bench.peers`: the same workloads beside each peer, in the environment that `make bench-peers` built for it.

In each, one process runs Clew, the raw driver and the peer in turn. Takes the options of `python -m bench`; `--peer langgraph`
is for one peer. A peer whose environment could not be built is reported, with the reason.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from rich.console import Console

from bench import outcome
from bench.outcome import Outcome
from bench.targets import PEERS

ROOT = Path(__file__).parent.parent


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__)
    parser.add_argument("--peer", choices=list(PEERS), nargs="+", default=list(PEERS), help="these peers")
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    chosen, others = parser.parse_known_args()
    console = Console()
    outcomes: list[Outcome] = []
    about: dict[str, Any] = {}
    missing = 0
    for peer in chosen.peer:
        console.rule(peer)
        reason = absent(peer)
        if reason is None:
            told, found = _run(peer, others)
            outcomes += found
            about = {
                "machine": told["machine"],
                "versions": {
                    **about.get("versions", {}),
                    f"{peer}: Python": told["versions"].pop("Python"),
                    **told["versions"],
                },
            }
        else:
            missing += 1
            console.print(f"[red]NOT MEASURED: {peer}[/]: {reason}")
            outcomes.append(
                Outcome(workload="growing", storage="memory", environment=peer, left_out=[(peer, "everything", reason)])
            )
        if chosen.json:
            outcome.write(chosen.json, about, outcomes)
    return 1 if missing else 0


def absent(peer: str, root: Path = ROOT) -> str | None:
    """Why a peer can't be measured here; `None` if it can."""
    place = root / f".venv-bench-{peer}"
    if (place / ".ready").exists():
        return None
    failed = place / ".failed"
    return failed.read_text().strip() if failed.exists() else f"there is no {place.name}; run make bench-peers"


def _run(peer: str, options: list[str]) -> tuple[dict[str, Any], list[Outcome]]:
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        python = ROOT / f".venv-bench-{peer}" / "bin" / "python"
        subprocess.run([python, "-m", "bench", "--peer", peer, "--json", results, *options], cwd=ROOT, check=True)
        return outcome.read(results)


if __name__ == "__main__":
    sys.exit(main())
