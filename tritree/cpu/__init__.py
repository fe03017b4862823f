"""The CPU backend: Numba kernels with one sentence in each SIMD lane.

The way of a batch:

    scores [B, N, N], lengths [B]
        │   backend.py       allocates the results
        │   order.py         the sentences, the longest first
        │   threads.py       some threads, each with its workspace
        ▼
    a thread, until no group is left
        │   groups.py        takes the next group: 4 sentences of float64, or 8 of float32, one in each lane
        ▼
    a kernel (kernels/), on that group
        │   copy in          scores become arcs of a chart                       chart/lanes.py, chart/layout.py
        │   inside           from short spans to the whole sentence              passes/inside.py
        │   trust?           no: the sentence is marked as refused               chart/trust.py
        │   outside          from the whole sentence to the arcs; or a walk      passes/outside.py, passes/walk.py
        │   copy out         lanes become sentences again                        chart/lanes.py
        ▼
    results, in tensors

Everything is computed with fast numbers (Linear) first. For the sentences that were refused, because numbers may have
underflowed, backend.py runs the kernel again with exact numbers (Scaled). The best trees need no second run: Max only
adds and compares.

The files in reading order. Each room imports only from itself and from those above it.

    simd/      jit          how code is compiled and cached             vector, exp    a vector type and its operations
               philox       random numbers
    chart/     numbers, gradients   the kinds of numbers                layout         where charts are in memory
               lanes        scores in, marginals out                    trust          why fast numbers are accurate
    passes/    inside, outside      the recurrences, plain              walk           from a chart to a tree
               emit, tile, tiled    the recurrences, fast               choose         which kind of number uses which
    order, threads, groups          who computes what
    kernels/   posterior, tangent, viterbi, max_marginals, sample, topk, relaxed: a loop over groups each; is_tree
    backend    the functions that tritree/operators.py calls
"""
