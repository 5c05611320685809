"""`python -m bench.peers`: compares Clew with each peer, in the environment that
`make bench-peers` built for it.

In each environment, one process runs Clew, the raw driver and the peer in turn. It takes the
options of `python -m bench`, and `--peer langgraph` for one peer. A peer whose environment could
not be built is reported with the reason.
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
from bench.places import STORAGES
from bench.targets import PEERS
from bench.workloads import WORKLOADS

ROOT = Path(__file__).parent.parent


def main() -> int:
    # No abbreviations, because --on is not short for --only.
    parser = argparse.ArgumentParser(prog="python -m bench.peers", description=__doc__, allow_abbrev=False)
    parser.add_argument("--peer", choices=list(PEERS), nargs="+", default=list(PEERS), help="these peers")
    names = [name for name, workload in WORKLOADS.items() if workload.beside_peers]
    parser.add_argument("--only", choices=names, nargs="+", default=names, help="these workloads")
    parser.add_argument("--on", choices=STORAGES, nargs="+", default=list(STORAGES), help="these storages")
    parser.add_argument("--json", type=Path, help="write the results to this file too")
    chosen, others = parser.parse_known_args()
    console = Console()
    outcomes: list[Outcome] = []
    about: dict[str, Any] = {}
    missing = {peer: reason for peer in chosen.peer if (reason := absent(peer)) is not None}
    for peer, reason in missing.items():
        left_out = [(peer, "everything", reason)]
        outcomes.append(Outcome(workload=chosen.only[0], storage="memory", environment=peer, left_out=left_out))
    # One process each, so that none is slowed down by another's memory.
    for workload in chosen.only:
        for peer in [each for each in chosen.peer if each not in missing and WORKLOADS[workload].needs in (None, each)]:
            console.rule(f"{workload}, compared with {peer}")
            told, found = _run(peer, ["--only", workload, "--on", *chosen.on, *others])
            outcomes += found
            about = {
                "machine": told["machine"],
                "versions": {**about.get("versions", {}), **_named(peer, told["versions"])},
            }
            if chosen.json:
                outcome.write(chosen.json, about, outcomes)
    for peer, reason in missing.items():
        console.print(f"[red]NOT MEASURED: {peer}[/]: {reason}")
    return 1 if missing else 0


def _named(peer: str, versions: dict[str, str]) -> dict[str, str]:
    """Return the versions, with the Python version of this peer's environment under its name."""
    return {f"Python (with {peer})" if name == "Python" else name: version for name, version in versions.items()}


def absent(peer: str, root: Path = ROOT) -> str | None:
    """Return why a peer can't be measured here; `None` if it can."""
    place = root / f".venv-bench-{peer}"
    if (place / ".ready").exists():
        return None
    failed = place / ".failed"
    return (
        " ".join(failed.read_text().split()) if failed.exists() else f"there is no {place.name}; run make bench-peers"
    )


def _run(peer: str, options: list[str]) -> tuple[dict[str, Any], list[Outcome]]:
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.json"
        python = ROOT / f".venv-bench-{peer}" / "bin" / "python"
        subprocess.run([python, "-m", "bench", "--peer", peer, "--json", results, *options], cwd=ROOT, check=True)
        return outcome.read(results)


if __name__ == "__main__":
    sys.exit(main())
