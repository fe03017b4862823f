"""evaluate.py called in this process, and sentences for its input."""

import evaluate
from tests.parsers import processes

# A multiword token, an empty node, spaces after words, several comments, FEATS that are not sorted: all must survive.
ODD = """# newdoc id = d
# sent_id = odd-1
# text = vámonos al mar .
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\tSpaceAfter=No
1\tvamos\tir\tVERB\t_\tMood=Imp|Aspect=X\t0\troot\t_\t_
2\tnos\tnos\tPRON\t_\t_\t1\tobj\t_\tGloss=us
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t_\t_
4.1\tgran\tgrande\tADJ\t_\t_\t_\t_\t5:amod\t_
5\tmar\tmar\tNOUN\t_\t_\t1\tobl\t1:obl\tSpaceAfter=No|Gloss=sea
6\t.\t.\tPUNCT\t_\t_\t1\tpunct\t_\t_

"""
WORD = "{}\ta\t_\tX\t_\t_\t{}\t_\t_\t_\n"


def words(*heads) -> str:
    """The lines of a sentence with these heads."""
    return "".join(WORD.format(word, head) for word, head in enumerate(heads, 1))


def main(*arguments) -> None:
    assert evaluate.main([str(argument) for argument in arguments]) == 0


def mistake(capfd, *arguments, lines: int = 1) -> str:
    return processes.mistake(capfd, evaluate.main, *arguments, lines=lines)
