"""The k best trees: the chart of the best one, then further derivations, one by one, of the items that need them.

After the inside pass with max and + every item has its best derivation. The next ones are computed on demand (Huang &
Chiang 2005, algorithm 3). A derivation of an item is a term of its sum, the q-th, and a derivation of each of the two
factors. Write it as (q, l, r), where l and r are the ranks of the factors' derivations: 0 is the best. The derivations
of an item are ordered by weight, equal ones by q, then l, then r. (q, l, r) comes after (q, l, r−1) and (q, l−1, r), so
few can be the next one. When (q, l, r) has been found, these become candidates:

    (q,  l,   r+1)
    (q,  l+1, 0)      if r = 0
    (q′, 0,   0)      if l = r = 0, where q′ is the next best term

Each derivation thus becomes a candidate once, right after one that comes before it. A factor may have to find its
derivation of rank l + 1 or r + 1 first, and so on down, along the arcs of one tree, of which there are n.

For a new tree at most 2n items search for their next derivation: O(n²) in the worst case, and much less in the mean,
because two successive trees share most of their items. Rank 0 is never stored: the chart has it.
"""

from collections import namedtuple

import numpy as np

from tritree.cpu.chart.lanes import goal, is_repeated
from tritree.cpu.chart.numbers import MINUS_INF
from tritree.cpu.groups import new_members, next_group
from tritree.cpu.kernels.viterbi import best_items
from tritree.cpu.simd.jit import inline, kernel
from tritree.cpu.simd.vector import address, advance, lanes

INFINITY = float("inf")

# In place of a record: the derivation of rank 0, no derivation, one that was not searched for yet.
BEST, NONE, UNKNOWN = -1, -2, -3

# One row per derivation. `left` and `right` are the records of the factors' derivations. A derivation that was found
# has a `rank`, and `next` is the one after it. Candidates form a heap, in which `next` and `other` are the children.
Records = namedtuple("Records", "weight split left right rank next other used")
# One row per item that was looked at. `row` has its number, or −1. `split` is that of the best derivation, `second` the
# derivation after it, `last` the one that was found last; the first of the `candidates` is the next one.
Items = namedtuple("Items", "row split second last candidates used")
# What the search needs. An item is given by its number (`number`).
Search = namedtuple("Search", "charts lane nodes single_root items records stack")
# The terms A[a + q·step_a] ⊗ C[b + q·step_b], q < count, of an item's sum. The first has the split index `first`.
Terms = namedtuple("Terms", "A a step_a b step_b count is_join h m first")


@kernel
def topk_kernel(work, order, scores, lengths, single_root, best, heads, progress):
    """Fills best and heads, for the groups that it takes."""
    members = new_members(work)
    k, N = best.shape[1], scores.shape[1]
    n = lengths[order[0]]  # no sentence is longer
    # For a new tree at most 2n items find their next derivation, each with three candidates.
    count = 6 * n * (k - 1)
    weights, numbers = np.empty(count, work.dtype), np.empty(6 * count + 1, np.int64)
    items = np.empty(10 * (n + 1) * (n + 1) + 1, np.int64)
    stack = np.empty(3 * n + 3, np.int64)
    while next_group(members, order, lengths, progress):
        charts = best_items(work, members, scores, single_root)
        for lane in range(lanes(charts.scratch)):
            if is_repeated(members, lane):
                break
            b, n = members.sentences[lane], members.words[lane]
            search = new_search(charts, lane, n + 1, single_root, weights, numbers, items, stack)
            weight = charts.C.value[goal(members, lane)] + charts.scratch[lane]
            best_trees(search, n, weight, k, N, advance(address(best), b * k), advance(address(heads), b * k * N))


@inline
def new_search(charts, lane, nodes, single_root, weights, numbers, items, stack):
    """Pointers into the arrays: passing arrays to functions would count references at every call."""
    count = weights.size
    f, g = address(numbers), address(items)
    split, left, right = advance(f, 1), advance(f, 1 + count), advance(f, 1 + 2 * count)
    rank, following, other = advance(f, 1 + 3 * count), advance(f, 1 + 4 * count), advance(f, 1 + 5 * count)
    records = Records(address(weights), split, left, right, rank, following, other, f)
    size = 2 * nodes * nodes
    row, split, second = advance(g, 1), advance(g, 1 + size), advance(g, 1 + 2 * size)
    known = Items(row, split, second, advance(g, 1 + 3 * size), advance(g, 1 + 4 * size), g)
    records.used[0] = 0
    known.used[0] = 0
    for item in range(size):
        row[item] = -1
    return Search(charts, lane, nodes, single_root, known, records, address(stack))


@inline
def best_trees(search, n, weight, k, N, best, heads):
    """Writes k scores, of which the first is `weight`, and k trees of N heads. If it is NaN, all scores are NaN."""
    nothing = weight if weight != weight else MINUS_INF
    tree = BEST if weight > MINUS_INF else NONE
    for t in range(k):
        for m in range(N):
            heads[t * N + m] = -1
        if tree == NONE:
            best[t] = nothing
            continue
        best[t] = weight if tree == BEST else search.records.weight[tree]
        read_tree(search, n, tree, advance(heads, t * N))
        if t + 1 < k:
            tree = find_next(search, n)


@inline
def number(h, m):
    """The number of C[h,m]. X{i,j} has that of C[i + nodes, j]. `ends` needs no division to undo it."""
    return h << 32 | m


@inline
def ends(item):
    return item >> 32, item & 0xFFFFFFFF


@inline
def row_of(search, item):
    """The row of an item, a new one if it has none."""
    items = search.items
    h, m = ends(item)
    at = h * search.nodes + m
    row = items.row[at]
    if row < 0:
        row = items.used[0]
        items.used[0] += 1
        items.row[at] = row
        items.split[row], items.second[row], items.last[row], items.candidates[row] = UNKNOWN, UNKNOWN, BEST, NONE
    return row


@inline
def terms_of(search, item):
    charts, lane, nodes = search.charts, search.lane, search.nodes
    C, I, row = charts.C, charts.I, charts.row
    cell = lanes(C.value)
    h, m = ends(item)
    if h >= nodes:
        # X{i,j} = ⊕ C[i,r] ⊗ C[j,r+1]
        i, j = h - nodes, m
        count = 1 if search.single_root and i == 0 else j - i
        return Terms(C, i * (row + cell) + lane, cell, j * row + (i + 1) * cell + lane, cell, count, True, i, j, i)
    # C[h,m] = ⊕ I[h,k] ⊗ C[k,m]
    first, count = (h + 1, m - h) if h < m else (m, h - m)
    a, b = h * row + first * cell + lane, first * row + m * cell + lane
    return Terms(I, a, cell, b, row, count, False, h, m, first)


@inline
def factors(search, terms, q):
    """The items whose derivations are the factors of term q. For I[h,k] it is X{h,k}, whose derivations it shares."""
    nodes, k = search.nodes, terms.first + q
    h, m = terms.h, terms.m
    if terms.is_join:
        return number(h, k), number(m, k + 1)
    return number(nodes + min(h, k), max(h, k)), number(k, m)


@inline
def weight_of(search, terms, q, left, right):
    """The weight of a derivation, by the same additions as in the inside pass."""
    charts, weight = search.charts, search.records.weight
    x = terms.A.value[terms.a + q * terms.step_a]
    if left != BEST:
        x = weight[left]
        if not terms.is_join:
            x += charts.p.value[terms.a + q * terms.step_a]
    y = charts.C.value[terms.b + q * terms.step_b]
    return x + (y if right == BEST else weight[right])


@inline
def next_term(search, terms, weight, q):
    """The best term, with the best factors, after the one of this weight and index; −1 if there is none."""
    A, C = terms.A.value, search.charts.C.value
    best, found = weight, -1
    a, b = terms.a, terms.b
    for r in range(terms.count):
        w = A[a] + C[b]
        after = w < weight or (w == weight and r > q)
        if after and w > MINUS_INF and (found < 0 or w > best):
            best, found = w, r
        a += terms.step_a
        b += terms.step_b
    return found


@inline
def derivation(search, terms, row, record):
    """(q, left, right) of a derivation that was found."""
    items, records = search.items, search.records
    if record != BEST:
        return records.split[record], records.left[record], records.right[record]
    if items.split[row] == UNKNOWN:
        items.split[row] = next_term(search, terms, INFINITY, -1)
    return items.split[row], BEST, BEST


@inline
def following(search, item, record):
    """The derivation after this one: a record, NONE, or UNKNOWN."""
    h, m = ends(item)
    if h == m:
        return NONE  # an axiom
    return search.items.second[row_of(search, item)] if record == BEST else search.records.next[record]


@inline
def find_next(search, n):
    """Finds the next derivation of the goal, and those of other items that it needs. Returns its record, or NONE."""
    items, stack = search.items, search.stack
    if n == 0:
        return NONE
    found = NONE
    stack[0] = number(0, n)
    depth = 1
    while depth > 0:
        item = stack[depth - 1]
        row, terms = row_of(search, item), terms_of(search, item)
        q, left, right = derivation(search, terms, row, items.last[row])
        A, B = factors(search, terms, q)
        after_left = following(search, A, left) if right == BEST else NONE
        after_right = following(search, B, right)
        if after_left == UNKNOWN or after_right == UNKNOWN:
            stack[depth] = A if after_left == UNKNOWN else B
            depth += 1
            continue
        if after_left != NONE:
            add_candidate(search, row, terms, q, after_left, BEST)
        if after_right != NONE:
            add_candidate(search, row, terms, q, left, after_right)
        if left == BEST and right == BEST:
            other = next_term(search, terms, weight_of(search, terms, q, BEST, BEST), q)
            if other >= 0:
                add_candidate(search, row, terms, other, BEST, BEST)
        found = take_candidate(search, row)
        depth -= 1
    return found


@inline
def add_candidate(search, row, terms, q, left, right):
    items, records = search.items, search.records
    weight = weight_of(search, terms, q, left, right)
    if not weight > MINUS_INF:  # a sum of finite scores can overflow to −inf
        return
    new = records.used[0]
    records.used[0] += 1
    records.weight[new], records.split[new] = weight, q
    records.left[new], records.right[new] = left, right
    records.next[new], records.other[new] = NONE, NONE
    items.candidates[row] = merged(records, items.candidates[row], new)


@inline
def merged(records, x, y):
    """Merges two skew heaps (Sleator & Tarjan 1986): O(log) steps, amortised.

    The children `next` and `other` of a record come after it. At each step the children change places and the rest is
    merged into the new `next`, so that no branch stays long.
    """
    if x == NONE or y == NONE:
        return max(x, y)
    if comes_before(records, y, x):
        x, y = y, x
    first = at = x
    while True:
        x = records.other[at]
        records.other[at] = records.next[at]
        if x == NONE:
            break
        if comes_before(records, y, x):
            x, y = y, x
        records.next[at] = x
        at = x
    records.next[at] = y
    return first


@inline
def comes_before(records, x, y):
    if records.weight[x] != records.weight[y]:
        return records.weight[x] > records.weight[y]
    if records.split[x] != records.split[y]:
        return records.split[x] < records.split[y]
    l, m = rank_of(records, records.left[x]), rank_of(records, records.left[y])
    return l < m or (l == m and rank_of(records, records.right[x]) < rank_of(records, records.right[y]))


@inline
def rank_of(records, record):
    return 0 if record == BEST else records.rank[record]


@inline
def take_candidate(search, row):
    """The first candidate is the item's next derivation."""
    items, records = search.items, search.records
    last, found = items.last[row], items.candidates[row]
    if last == BEST:
        items.second[row] = found
    else:
        records.next[last] = found
    if found != NONE:
        items.candidates[row] = merged(records, records.next[found], records.other[found])
        items.last[row] = found
        records.rank[found] = rank_of(records, last) + 1
        records.next[found] = UNKNOWN
    return found


@inline
def read_tree(search, n, record, heads):
    """Writes the heads of a derivation of the goal: like `walk`, but along derivations that were found."""
    nodes, stack = search.nodes, search.stack
    stack[0], stack[1], stack[2] = 0, n, record
    depth = 3 if n > 0 else 0
    while depth > 0:
        depth -= 3
        h, m, of_complete = stack[depth], stack[depth + 1], stack[depth + 2]
        item = number(h, m)
        terms = terms_of(search, item)
        q, of_join, of_rest = derivation(search, terms, row_of(search, item), of_complete)
        k = terms.first + q
        heads[k] = h
        i, j = min(h, k), max(h, k)
        item = number(nodes + i, j)
        terms = terms_of(search, item)
        q, of_left, of_right = derivation(search, terms, row_of(search, item), of_join)
        for head, end, of_item in ((k, m, of_rest), (i, i + q, of_left), (j, i + q + 1, of_right)):
            if head != end:
                stack[depth], stack[depth + 1], stack[depth + 2] = head, end, of_item
                depth += 3
