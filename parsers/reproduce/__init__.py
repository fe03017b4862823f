"""`python -m parsers.reproduce GRID.toml`: many runs, a line of runs.jsonl for each, and tables from these lines.

grid.py reads what shall be run, jobs.py runs it in processes (child.py is one of them), lines.py keeps the results.
tables.py, targets.py and plots.py need the grid and the lines only: neither torch nor treebanks nor models.
"""

from parsers import MODELS

# A finished run is never done again while its system has the same number: raise it when the results of that system
# change, of all systems when those of all change. udpipe is what udpipe.py trains.
RECIPES = {**dict.fromkeys(MODELS, 2), "udpipe": 1}
