"""The GPU backend: Triton kernels over charts that are stored by diagonals.

A cell is a span (i, j). A lane computes one span, and all lanes of a tile are on one diagonal, w = j − i:

             j = 0   1   2   3   4   5
    i = 0        ·   a   b   c   d   e       w = 0    ·    axioms, column maxima
        1            ·   a   b   c   d       w = 1    a    ┐
        2                ·   a   b   c       w = 2    b    │  inside: ↓ each diagonal from narrower ones
        3                    ·   a   b        …       …    │  outside: ↑ each diagonal from wider ones
        4                        ·   a       w = n    e    ┘  the goal
        5                            ·

A kernel is launched in one of two shapes, with the same code and the same bits:

    one program per sentence     grid (B, 1): the program goes over all diagonals, with a barrier after each; one launch
    one launch per diagonal      grid (B, tiles of the diagonal): for few, long sentences; N launches

Walks from a chart to trees have one program per tree. Nothing synchronises with the host: sizes come from shapes, and
lengths stay on the device.

The files in reading order; those with a counterpart in tritree/cpu have its name.

    semiring       ⊕ and ⊗: logsumexp, the same with derivatives, max, means
    chart          where an item is in memory; `sweep`, which launches a kernel over all diagonals
    inside         the pass from narrow spans to wide ones
    outside        the pass from wide spans to narrow ones
    walk           from a chart to trees
    posterior, tangent, viterbi, max_marginals, sample, relaxed       these put together
    topk           the k best trees: an inside pass with k derivations for each item, and walks along them
    topk_by_sorting          the same in torch operations, for k above 64
    backend        the functions that tritree/operators.py calls
"""
