"""The number of terms that the paper claims, and tritree's, counted and in closed form."""

from perf.counting import into_root, one_sum, paper_rules, relaxed_terms, tritree_rules


def test_counts(benchmark, report):
    benchmark.pedantic(assert_closed_forms, rounds=1)
    N = 41
    T, ours, paper = one_sum(N), tritree_rules(N), paper_rules(N)
    report.notes.append(
        f"terms for l = {N - 1}, in sums of (N³ − N)/6: "
        f"paper inside {paper.inside_terms / T:.2f} (claimed 4), "
        f"inside and outside {(paper.inside_terms + paper.outside_terms) / T:.2f} (12), "
        f"perturb-and-parse {relaxed_terms(N) / T:.2f} (24); "
        f"tritree inside {ours.inside_terms / T:.2f} (3), "
        f"inside and outside {(ours.inside_terms + ours.outside_terms) / T:.2f} (9)"
    )


def assert_closed_forms():
    """The sums that end in an arc into ROOT are left out: two of the paper's four, one of tritree's three."""
    for N in range(1, 62):
        paper, ours = paper_rules(N), tritree_rules(N)
        assert paper.inside_terms == 4 * one_sum(N) - 2 * into_root(N)
        assert paper.outside_terms == 8 * one_sum(N) - 4 * into_root(N)
        assert ours.inside_terms == 3 * one_sum(N) - into_root(N)
        assert ours.outside_terms == 6 * one_sum(N) - 2 * into_root(N)
        assert relaxed_terms(N) == 24 * one_sum(N) - 12 * into_root(N)
