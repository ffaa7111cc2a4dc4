"""Sums the coverage of lines by crate, and holds it against the bar and against what the README says."""

import json
import pathlib
import re
import sys

BAR = 90.0
CRATES = ("protocol", "policy", "planner", "journal", "taskdb", "backup", "actors")
# Between two runs it moves a little: which of two threads is first decides which lines are run.
DRIFT = 1.0

report, readme = sys.argv[1:]
root = pathlib.Path.cwd()
sums = {}
for file in json.loads(pathlib.Path(report).read_text())["data"][0]["files"]:
    crate = pathlib.Path(file["filename"]).relative_to(root).parts[0]
    lines = file["summary"]["lines"]
    count, covered = sums.get(crate, (0, 0))
    sums[crate] = (count + lines["count"], covered + lines["covered"])


def percent(crates):
    count = sum(sums[crate][0] for crate in crates)
    return 100 * sum(sums[crate][1] for crate in crates) / count


for crate in sorted(sums):
    print(f"{crate:10} {percent([crate]):5.1f} % of {sums[crate][0]} lines")
faults = [f"{crate} has {percent([crate]):.1f} % of its lines covered, less than {BAR:.0f}" for crate in CRATES
          if percent([crate]) < BAR]
together = percent(CRATES)
print(f"{'together':10} {together:5.1f} % ({', '.join(CRATES)})")
said = re.search(r"([0-9.]+) % of the lines", pathlib.Path(readme).read_text())
if not said:
    faults.append(f"{readme} says nothing like \"{together:.1f} % of the lines\"")
elif abs(float(said[1]) - together) > DRIFT:
    faults.append(f"{readme} says {said[1]} %, measured were {together:.1f}")
for fault in faults:
    print(f"coverage: {fault}", file=sys.stderr)
sys.exit(1 if faults else 0)
